// Linear algebra whose result shapes or errors depend on values: made of lowered ops here.
#include <ATen/ATen.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

at::Tensor checked_cholesky(const at::Tensor& self, bool upper) {
  if (self.numel() == 0) return at::empty_like(self, at::MemoryFormat::Contiguous);
  const auto [factor, info] = at::linalg_cholesky_ex(self, upper, /*check_errors=*/false);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return factor;
}

at::Tensor& checked_cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  at::native::checkSameDevice("cholesky", out, self);
  at::native::checkLinalgCompatibleDtype("cholesky", out, self);
  const at::Tensor factor = checked_cholesky(self, upper);
  at::native::resize_output(out, factor.sizes());
  return out.copy_(factor);
}

using Solution = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_least_squares(const at::Tensor& a, const at::Tensor& b, std::string_view driver) {
  TORCH_CHECK(a.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(b.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "torch.linalg.lstsq: Expected input and other to have the same dtype, ", "but got input's dtype ",
              a.scalar_type(), " and other's dtype ", b.scalar_type());
  const int64_t difference = a.dim() - b.dim();
  TORCH_CHECK(
      difference == 0 || difference == 1,
      "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1");
  TORCH_CHECK(at::isFloatingType(a.scalar_type()) || at::isComplexType(a.scalar_type()),
              "linalg.lstsq: Expected a floating point or complex tensor as input. Got ", a.scalar_type());
  TORCH_CHECK(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
              "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
}

// In memory column by column, with room for max(m, n) rows, as LAPACK returns it.
at::Tensor as_lapack_returns(const at::Tensor& x, int64_t rows) {
  at::DimVector sizes(x.sizes());
  std::swap(sizes.end()[-1], sizes.end()[-2]);
  sizes.back() = rows;
  at::Tensor result = at::empty(sizes, x.options()).transpose(-1, -2).narrow(-2, 0, x.size(-2));
  return result.copy_(x);
}

Solution least_squares(const at::Tensor& a, const at::Tensor& other, std::optional<double> rcond,
                       std::optional<std::string_view> driver_name) {
  const std::string driver(driver_name.value_or("gelsy"));
  check_least_squares(a, other, driver);
  const bool vectors = at::native::linalg_solve_is_vector_rhs(a, other);
  const at::Tensor b = vectors ? other.unsqueeze(-1) : other;
  TORCH_CHECK(a.size(-2) == b.size(-2), "torch.linalg.lstsq: input.size(-2) should match other.size(",
              vectors ? -1 : -2, ")");
  const auto batch = a.sizes().slice(0, a.dim() - 2);
  TORCH_CHECK(batch == b.sizes().slice(0, b.dim() - 2),
              "torch.linalg.lstsq: the batch dimensions of input and other must be equal, got ", a.sizes(), " and ",
              b.sizes());
  const int64_t m = a.size(-2), n = a.size(-1);
  const auto real = a.options().dtype(c10::toRealValueType(a.scalar_type()));
  at::Tensor residuals = at::empty({0}, real), rank = at::empty({0}, a.options().dtype(at::kLong));
  at::Tensor singular_values = at::empty({0}, real), x;
  bool full_rank = true;
  if (driver == "gels") {
    // Full rank is assumed. A = Q R, or for a wide matrix A^H = Q R.
    if (m >= n) {
      const auto [q, r] = at::linalg_qr(a, "reduced");
      x = at::linalg_solve_triangular(r, q.mH().matmul(b), /*upper=*/true);
    } else {
      const auto [q, r] = at::linalg_qr(a.mH(), "reduced");
      x = q.matmul(at::linalg_solve_triangular(r.mH(), b, /*upper=*/false));
    }
  } else {
    const auto [u, s, vh] = at::linalg_svd(a, /*full_matrices=*/false);
    const double epsilon =
        real.dtype() == at::kFloat ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    double cut = rcond.value_or(epsilon * static_cast<double>(std::max(m, n)));
    if (cut < 0) cut = epsilon;  // as LAPACK
    const at::Tensor kept = s.size(-1) == 0 ? s.to(at::kBool) : s.gt(s.narrow(-1, 0, 1).mul(cut));
    rank = kept.sum(-1);
    const at::Tensor inverse = at::where(kept, s.reciprocal(), at::zeros({}, s.options()));
    x = vh.mH().matmul(inverse.unsqueeze(-1).to(a.scalar_type()).mul(u.mH().matmul(b)));
    if (driver != "gelsy") singular_values = s;
    full_rank = driver != "gelsy" && m > n && rank.eq(n).all().item<bool>();
  }
  if (m > n && full_rank) residuals = b.sub(a.matmul(x)).abs().square().sum(-2);
  x = as_lapack_returns(x, std::max<int64_t>({m, n, 1}));
  return {vectors ? x.squeeze(-1) : x, residuals, rank, singular_values};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> least_squares_out(
    const at::Tensor& a, const at::Tensor& b, std::optional<double> rcond, std::optional<std::string_view> driver,
    at::Tensor& solution, at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular_values) {
  using at::native::checkLinalgCompatibleDtype, at::native::checkSameDevice;
  const std::string name = "torch.linalg.lstsq";
  checkSameDevice(name, solution, a, "solution");
  checkSameDevice(name, residuals, a, "residuals");
  checkSameDevice(name, rank, a, "rank");
  checkSameDevice(name, singular_values, a, "singular_values");
  const at::ScalarType real = c10::toRealValueType(a.scalar_type());
  checkLinalgCompatibleDtype(name, solution, a, "solution");
  checkLinalgCompatibleDtype(name, residuals.scalar_type(), real, "residuals");
  checkLinalgCompatibleDtype(name, rank.scalar_type(), at::kLong, "rank");
  checkLinalgCompatibleDtype(name, singular_values.scalar_type(), real, "singular_values");
  const auto [x, r, k, s] = least_squares(a, b, rcond, driver);
  const std::pair<at::Tensor*, at::Tensor> results[] = {
      {&solution, x}, {&residuals, r}, {&rank, k}, {&singular_values, s}};
  for (const auto& [out, value] : results) {
    const bool was_empty = out->numel() == 0;
    if (at::native::resize_output(*out, value.sizes()) && was_empty) {
      // The CPU hands an empty `out` over to LAPACK.
      const size_t bytes = at::detail::computeStorageNbytes(value.sizes(), value.strides(), value.itemsize());
      out->resize_({static_cast<int64_t>(bytes / value.itemsize())}).as_strided_(value.sizes(), value.strides());
    }
    out->copy_(value);
  }
  return {solution, residuals, rank, singular_values};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cholesky", &checked_cholesky);
  m.impl("cholesky.out", &checked_cholesky_out);
  m.impl("linalg_lstsq", &least_squares);
  m.impl("linalg_lstsq.out", &least_squares_out);
}

}  // namespace torch_tpu::aten
