// Ops whose result size depends on values: one program counts, the count is read, another program fills a result whose
// size is rounded up to a bucket, so that a new count is no new program. The returned tensor is the exact part of it.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/buckets.h"
#include "aten/op_entry.h"

namespace torch_tpu::aten {
namespace {

void check_out(const at::Tensor& out, at::ArrayRef<at::Tensor> inputs) {
  at::assert_no_internal_overlap(out);
  for (const at::Tensor& input : inputs) {
    TORCH_CHECK(out.device() == input.device(), "Expected all tensors to be on the same device, but out is on ",
                out.device(), " and another one is on ", input.device());
    at::assert_no_overlap(out, input);
  }
}

at::Tensor& write_to(at::Tensor& out, const at::Tensor& result) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

at::Tensor find_nonzero(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 0 || self.dim() <= 64, "nonzero is not supported for tensors of more than 64 dims");
  const int64_t count = self.numel() == 0 ? 0 : self.count_nonzero().item<int64_t>();
  // All rows, then all columns and so on, as the CPU has it.
  if (count == 0) return at::empty_strided({0, self.dim()}, {1, 0}, self.options().dtype(at::kLong));
  if (self.dim() == 0) return at::empty({1, 0}, self.options().dtype(at::kLong));
  static const OpEntry& entry = internal_entry("tpu::nonzero(Tensor self, int size, int count) -> Tensor");
  torch::jit::Stack stack{self, bucket(count, self.numel()), count};
  run_entry(entry, &stack);
  return stack.back().toTensor().as_strided({count, self.dim()}, {1, count});
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero: Expected out tensor to have scalar type Long but got scalar type ", out.scalar_type());
  check_out(out, {self});
  return write_to(out, find_nonzero(self));
}

// The flat positions of the true elements, padded with 0 up to a bucket.
at::Tensor padded_positions(const at::Tensor& flat_mask, int64_t count) {
  return at::nonzero_static(flat_mask, bucket(count, flat_mask.numel()), 0).select(1, 0);
}

at::Tensor select_masked(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto [wide_mask, wide_self] = at::expand_outplace(mask, self);
  const int64_t count = wide_mask->numel() == 0 ? 0 : wide_mask->sum().item<int64_t>();
  if (count == 0) return at::empty({0}, self.options());
  const at::Tensor at_positions = padded_positions(wide_mask->reshape({-1}), count);
  return wide_self->reshape({-1}).index_select(0, at_positions).narrow(0, 0, count);
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  check_out(out, {self, mask});
  return write_to(out, select_masked(self, mask));
}

struct Unique {
  at::Tensor values, inverse, counts;
};

// Runs of equal neighbours in `sorted`; `order` (may be undefined) says where each element came from.
Unique unique_runs(const at::Tensor& sorted, const at::Tensor& order, at::IntArrayRef inverse_sizes, bool want_inverse,
                   bool want_counts) {
  const int64_t n = sorted.numel();
  Unique u;
  const auto longs = sorted.options().dtype(at::kLong);
  u.inverse = at::empty({0}, longs);
  u.counts = at::empty({0}, longs);
  if (n == 0) {
    u.values = at::empty({0}, sorted.options());
    if (want_inverse) u.inverse = at::empty(inverse_sizes, longs);
    return u;
  }
  const at::Tensor starts = at::cat(
      {at::ones({1}, sorted.options().dtype(at::kBool)), sorted.narrow(0, 1, n - 1).ne(sorted.narrow(0, 0, n - 1))});
  const at::Tensor run = starts.cumsum(0) - 1;  // which run each element belongs to
  const int64_t count = run.select(0, n - 1).item<int64_t>() + 1;
  u.values = sorted.index_select(0, padded_positions(starts, count)).narrow(0, 0, count);
  if (want_inverse) {
    at::Tensor inverse = run;
    if (order.defined()) inverse = at::empty_like(run).scatter_(0, order, run);
    u.inverse = inverse.reshape(inverse_sizes);
  }
  if (want_counts)
    u.counts = at::zeros({bucket(count, n)}, longs).scatter_add_(0, run, at::ones({n}, longs)).narrow(0, 0, count);
  return u;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique2(const at::Tensor& self, bool, bool want_inverse,
                                                       bool want_counts) {
  const auto [sorted, order] = self.reshape({-1}).sort(/*stable=*/true, 0, false);
  Unique u = unique_runs(sorted, order, self.sizes(), want_inverse, want_counts);
  return {u.values, u.inverse, u.counts};
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool want_inverse) {
  auto [values, inverse, counts] = unique2(self, sorted, want_inverse, false);
  return {values, inverse};
}

// Which run of equal neighbours each row belongs to.
at::Tensor row_runs(const at::Tensor& rows) {
  const int64_t n = rows.size(0);
  at::Tensor differs = at::zeros({n}, rows.options().dtype(at::kLong));
  if (n > 1) differs.narrow(0, 1, n - 1).copy_(rows.narrow(0, 1, n - 1).ne(rows.narrow(0, 0, n - 1)).any(1));
  return differs.cumsum(0);
}

// Slices along `dim` as rows, with a rank for each: equal rows have equal ranks, and ranks sort as rows do.
at::Tensor row_ranks(const at::Tensor& rows) {
  // Column by column from the last: refine the order of the columns behind by a stable sort of this one.
  const int64_t n = rows.size(0);
  at::Tensor order = at::arange(n, rows.options().dtype(at::kLong));
  for (int64_t c = rows.size(1); c-- > 0;) {
    const at::Tensor key = rows.select(1, c).index_select(0, order);
    order = order.index_select(0, std::get<1>(key.sort(/*stable=*/true, 0, false)));
  }
  return at::empty_like(order).scatter_(0, order, row_runs(rows.index_select(0, order)));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_rows(const at::Tensor& self, int64_t dim, bool consecutive,
                                                           bool want_inverse, bool want_counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.size(dim);
  const auto longs = self.options().dtype(at::kLong);
  if (self.numel() == 0) {
    int64_t zero_dims = 0;
    for (const int64_t s : self.sizes()) zero_dims += s == 0;
    TORCH_CHECK(n == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    TORCH_CHECK(zero_dims == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return {self.clone(), at::empty({0}, longs), at::empty({0}, longs)};
  }
  const at::Tensor rows = self.movedim(dim, 0).reshape({n, -1});
  const at::Tensor ranks = consecutive ? row_runs(rows) : row_ranks(rows);
  const auto [sorted, order] = ranks.sort(/*stable=*/true, 0, false);
  Unique u = unique_runs(sorted, order, {n}, true, want_counts);
  const int64_t count = u.values.numel();
  // The first row of each run stands for it.
  const at::Tensor first = at::full({count}, n, longs).scatter_reduce_(0, ranks, at::arange(n, longs), "amin");
  // As the CPU leaves them: a stack of the distinct slices, seen along `dim`.
  std::vector<int64_t> sizes = self.movedim(dim, 0).sizes().vec();
  sizes[0] = count;
  const at::Tensor values = rows.index_select(0, first).view(sizes).movedim(0, dim);
  return {values, want_inverse || consecutive ? u.inverse : at::empty({0}, longs), u.counts};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim(const at::Tensor& self, int64_t dim, bool, bool want_inverse,
                                                          bool want_counts) {
  return unique_rows(self, dim, false, want_inverse, want_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self, int64_t dim,
                                                                      bool want_inverse, bool want_counts) {
  return unique_rows(self, dim, true, want_inverse, want_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_consecutive(const at::Tensor& self, bool want_inverse,
                                                                  bool want_counts, std::optional<int64_t> dim) {
  if (dim) return unique_rows(self, *dim, true, want_inverse, want_counts);
  Unique u = unique_runs(self.reshape({-1}), {}, self.sizes(), want_inverse, want_counts);
  return {u.values, u.inverse, u.counts};
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) return at::empty_like(repeats, repeats.options());
  const at::Tensor ends = repeats.cumsum(0, at::kLong);
  if (!output_size) {
    TORCH_CHECK(repeats.ge(0).all().item<bool>(), "repeats can not be negative");
    output_size = ends.select(0, repeats.size(0) - 1).item<int64_t>();
  }
  if (*output_size == 0) return at::empty({0}, repeats.options());
  // Element k of the result is the first position whose repeats reach beyond k.
  const at::Tensor k = at::arange(bucket(*output_size), ends.options());
  return at::searchsorted(ends, k, /*out_int32=*/false, /*right=*/true)
      .to(repeats.scalar_type())
      .narrow(0, 0, *output_size);
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || weights->sizes() == self.sizes(), "weights should be 1-d and have the same length as input");
  const auto type = !weighted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  const auto options = self.options().dtype(type);
  if (self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  const auto [low, high] = self.aminmax();
  TORCH_CHECK(low.item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t size = std::max(minlength, high.item<int64_t>() + 1);
  const at::Tensor added = weighted ? weights->to(type) : at::ones({self.numel()}, options);
  return at::zeros({bucket(size)}, options).scatter_add_(0, self.to(at::kLong), added).narrow(0, 0, size);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", &find_nonzero);
  m.impl("nonzero.out", &nonzero_out);
  m.impl("masked_select", &select_masked);
  m.impl("masked_select.out", &masked_select_out);
  m.impl("_unique2", &unique2);
  m.impl("_unique", &unique);
  m.impl("unique_dim", &unique_dim);
  m.impl("unique_dim_consecutive", &unique_dim_consecutive);
  m.impl("unique_consecutive", &unique_consecutive);
  m.impl("repeat_interleave.Tensor", &repeat_interleave);
  m.impl("bincount", &bincount);
}

}  // namespace torch_tpu::aten
