// histogram and histogramdd. The edges of bins come first, as a tensor a dim; then every row finds its bin by search.
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <cmath>

namespace torch_tpu::aten {
namespace {

using Edges = std::vector<at::Tensor>;
using Range = std::optional<at::ArrayRef<double>>;
using Weight = std::optional<at::Tensor>;

// The points as rows of coordinates.
at::Tensor rows_of(const at::Tensor& self) {
  const int64_t coordinates = self.size(-1);
  return self.reshape({coordinates == 0 ? 0 : self.numel() / coordinates, coordinates});
}

void check_inputs(const char* name, const at::Tensor& points, const Weight& weight, size_t dims) {
  TORCH_CHECK(at::isFloatingType(points.scalar_type()), "\"", name, "\" not implemented for '", points.scalar_type(),
              "'");
  TORCH_CHECK(points.dim() >= 2, name, ": input tensor should have at least 2 dimensions, but got ", points.dim());
  TORCH_CHECK(points.size(-1) == static_cast<int64_t>(dims), name, ": expected ", points.size(-1),
              " sequences of bin edges for a ", points.size(-1), "-dimensional histogram but got ", dims);
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(
      weight->scalar_type() == points.scalar_type(), name,
      ": if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input(",
      points.scalar_type(), "), and weight(", weight->scalar_type(), ")");
  TORCH_CHECK(
      weight->sizes() == points.sizes().slice(0, points.sizes().size() - 1), name,
      ": if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
      "dimension, but got input with shape ",
      points.sizes(), " and weight with shape ", weight->sizes());
}

// The outermost edges: as given, else the extremes of the data. They are read here, as CPU refuses infinite ones.
std::pair<double, double> outer_edges(const char* name, const at::Tensor& column, const Range& range, size_t dim) {
  double low = 0, high = 1;
  if (range) {
    low = (*range)[2 * dim];
    high = (*range)[2 * dim + 1];
  } else if (column.numel() > 0) {
    const auto [least, greatest] = column.aminmax();
    low = least.item<double>();
    high = greatest.item<double>();
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), name, ": dimension ", dim, "'s range [", low, ", ", high,
              "] is not finite");
  TORCH_CHECK(low <= high, name, ": min should not exceed max, but got min ", low, " max ", high, " for dimension ",
              dim);
  if (low == high) return {low - 0.5, high + 0.5};
  return {low, high};
}

Edges even_edges(const char* name, const at::Tensor& points, at::IntArrayRef bins, const Range& range) {
  TORCH_CHECK(!range || range->size() == 2 * bins.size(), name, ": for a ", bins.size(),
              "-dimensional histogram range should have ", 2 * bins.size(), " elements, but got ",
              range ? range->size() : 0);
  const at::Tensor rows = rows_of(points);
  Edges edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    TORCH_CHECK(bins[d] > 0, name, ": bins must be > 0, but got ", bins[d], " for dimension ", d);
    const auto [low, high] = outer_edges(name, rows.select(1, static_cast<int64_t>(d)), range, d);
    edges.push_back(at::linspace(low, high, bins[d] + 1, points.options()));
  }
  return edges;
}

at::Tensor count(const at::Tensor& points, const Edges& edges, const Weight& weight, bool density) {
  const at::Tensor rows = rows_of(points);
  const auto options = points.options();
  std::vector<int64_t> bins;
  at::Tensor bin = at::zeros({rows.size(0)}, options.dtype(at::kLong));
  at::Tensor inside = at::ones({rows.size(0)}, options.dtype(at::kBool));
  int64_t cells = 1;
  for (size_t d = 0; d < edges.size(); ++d) {
    const int64_t n = edges[d].numel() - 1;
    bins.push_back(n);
    cells *= n;
    const at::Tensor x = rows.select(1, static_cast<int64_t>(d)).contiguous();
    // The last bin holds its upper edge too.
    const at::Tensor at = at::searchsorted(edges[d], x, /*out_int32=*/false, /*right=*/true).sub(1).clamp(0, n - 1);
    bin = bin.mul(n).add(at);
    inside = inside.logical_and(x.ge(edges[d].select(0, 0))).logical_and(x.le(edges[d].select(0, n)));
  }
  const at::Tensor added = weight && weight->defined() ? weight->reshape({-1}) : at::ones({rows.size(0)}, options);
  at::Tensor hist = at::zeros({cells}, options).scatter_add_(0, bin, added.masked_fill(inside.logical_not(), 0));
  hist = hist.reshape(bins);
  if (!density) return hist;
  hist = hist.div(hist.sum());
  for (size_t d = 0; d < edges.size(); ++d) {
    std::vector<int64_t> shape(edges.size(), 1);
    shape[d] = bins[d];
    hist = hist.div(edges[d].diff().reshape(shape));
  }
  return hist;
}

Edges histogramdd_bin_edges(const at::Tensor& self, at::IntArrayRef bins, Range range, const Weight& weight, bool) {
  check_inputs("histogramdd", self, weight, bins.size());
  return even_edges("histogramdd", self, bins, range);
}

at::Tensor histogramdd_from_counts(const at::Tensor& self, at::IntArrayRef bins, Range range, const Weight& weight,
                                   bool density) {
  check_inputs("histogramdd", self, weight, bins.size());
  return count(self, even_edges("histogramdd", self, bins, range), weight, density);
}

at::Tensor histogramdd_from_tensors(const at::Tensor& self, at::TensorList bins, const Weight& weight, bool density) {
  check_inputs("histogramdd", self, weight, bins.size());
  return count(self, bins.vec(), weight, density);
}

// One dim: every element is a point.
at::Tensor points_of(const at::Tensor& self) { return self.reshape({self.numel(), 1}); }
Weight weights_of(const Weight& weight) {
  return weight && weight->defined() ? Weight(weight->reshape({weight->numel()})) : std::nullopt;
}

std::tuple<at::Tensor, at::Tensor> histogram_counts(const at::Tensor& self, int64_t bins, Range range,
                                                    const Weight& weight, bool density) {
  const at::Tensor points = points_of(self);
  check_inputs("histogram", points, weights_of(weight), 1);
  const Edges edges = even_edges("histogram", points, {bins}, range);
  return {count(points, edges, weights_of(weight), density), edges[0]};
}

std::tuple<at::Tensor, at::Tensor> histogram_edges(const at::Tensor& self, const at::Tensor& bins, const Weight& weight,
                                                   bool density) {
  TORCH_CHECK(bins.dim() == 1 && bins.numel() > 0,
              "histogram: bins tensor should have one dimension and some elements");
  TORCH_CHECK(bins.scalar_type() == self.scalar_type(),
              "histogram: input tensor and bins tensor should have the same dtype");
  const at::Tensor points = points_of(self);
  check_inputs("histogram", points, weights_of(weight), 1);
  return {count(points, {bins}, weights_of(weight), density), bins.clone()};
}

void assign(at::Tensor& out, const at::Tensor& result, const char* name) {
  TORCH_CHECK(out.device() == result.device(), "torch.histogram: expected ", name, " to be on ", result.device(),
              ", but it is on ", out.device());
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "torch.histogram: input tensor and ", name,
              " tensor should have the same dtype, but got input ", result.scalar_type(), " and ", name, " ",
              out.scalar_type());
  at::native::resize_output(out, result.sizes());
  out.copy_(result);
}

std::tuple<at::Tensor&, at::Tensor&> histogram_counts_out(const at::Tensor& self, int64_t bins, Range range,
                                                          const Weight& weight, bool density, at::Tensor& hist,
                                                          at::Tensor& bin_edges) {
  const auto [counts, edges] = histogram_counts(self, bins, range, weight, density);
  assign(hist, counts, "hist");
  assign(bin_edges, edges, "bin_edges");
  return {hist, bin_edges};
}

std::tuple<at::Tensor&, at::Tensor&> histogram_edges_out(const at::Tensor& self, const at::Tensor& bins,
                                                         const Weight& weight, bool density, at::Tensor& hist,
                                                         at::Tensor& bin_edges) {
  const auto [counts, edges] = histogram_edges(self, bins, weight, density);
  assign(hist, counts, "hist");
  assign(bin_edges, edges, "bin_edges");
  return {hist, bin_edges};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histogram.bin_ct", &histogram_counts);
  m.impl("histogram.bin_ct_out", &histogram_counts_out);
  m.impl("histogram.bins_tensor", &histogram_edges);
  m.impl("histogram.bins_tensor_out", &histogram_edges_out);
  m.impl("_histogramdd_bin_edges", &histogramdd_bin_edges);
  m.impl("_histogramdd_from_bin_cts", &histogramdd_from_counts);
  m.impl("_histogramdd_from_bin_tensors", &histogramdd_from_tensors);
}

}  // namespace torch_tpu::aten
