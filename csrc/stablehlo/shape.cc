#include "stablehlo/shape.h"

namespace torch_tpu::stablehlo {

Value reshape(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  TensorType result{x.element(), dims};
  if (result.numel() != x.numel()) throw TypeError("reshape: " + to_string(x.type()) + " to " + to_string(result));
  return x.builder().emit1("stablehlo.reshape", {x}, "", result);
}

Value transpose(Value x, const Dims& permutation) {
  if (permutation.size() != x.dims().size()) throw TypeError("transpose: rank of " + to_string(x.type()));
  TensorType result{x.element(), {}};
  bool identity = true;
  for (size_t i = 0; i < permutation.size(); ++i) {
    identity &= permutation[i] == static_cast<int64_t>(i);
    result.dims.push_back(x.dims().at(static_cast<size_t>(permutation[i])));
  }
  if (identity) return x;
  return x.builder().emit1("stablehlo.transpose", {x}, "permutation = " + i64_array(permutation), result);
}

Value broadcast_in_dim(Value x, const Dims& dims, const Dims& dimensions) {
  if (x.dims() == dims) {
    bool identity = true;
    for (size_t i = 0; i < dimensions.size(); ++i) identity &= dimensions[i] == static_cast<int64_t>(i);
    if (identity) return x;
  }
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const int64_t from = x.dims().at(i), to = dims.at(static_cast<size_t>(dimensions[i]));
    if (from != to && from != 1)
      throw TypeError("broadcast_in_dim: " + to_string(x.type()) + " to " + bracket_list(dims));
  }
  return x.builder().emit1("stablehlo.broadcast_in_dim", {x}, "broadcast_dimensions = " + i64_array(dimensions),
                           {x.element(), dims});
}

Value broadcast_to(Value x, const Dims& dims) {
  const int64_t offset = static_cast<int64_t>(dims.size()) - x.rank();
  if (offset < 0) throw TypeError("broadcast_to: " + to_string(x.type()) + " to " + bracket_list(dims));
  Dims dimensions;
  for (int64_t i = 0; i < x.rank(); ++i) dimensions.push_back(offset + i);
  return broadcast_in_dim(x, dims, dimensions);
}

Value slice(Value x, const Dims& start, const Dims& limit, const Dims& stride) {
  TensorType result{x.element(), {}};
  Dims steps = stride.empty() ? Dims(start.size(), 1) : stride;
  for (size_t i = 0; i < start.size(); ++i) {
    if (start[i] < 0 || limit[i] > x.dims().at(i) || start[i] > limit[i] || steps[i] < 1)
      throw TypeError("slice: " + bracket_list(start) + ":" + bracket_list(limit) + " of " + to_string(x.type()));
    result.dims.push_back((limit[i] - start[i] + steps[i] - 1) / steps[i]);
  }
  if (result.dims == x.dims()) return x;
  return x.builder().emit1("stablehlo.slice", {x},
                           "limit_indices = " + i64_array(limit) + ", start_indices = " + i64_array(start) +
                               ", strides = " + i64_array(steps),
                           result);
}

Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  Dims starts(x.dims().size(), 0), limits = x.dims(), strides(x.dims().size(), 1);
  starts.at(static_cast<size_t>(dim)) = start;
  limits[static_cast<size_t>(dim)] = limit;
  strides[static_cast<size_t>(dim)] = stride;
  return slice(x, starts, limits, strides);
}

Value dynamic_slice(Value x, std::span<const Value> starts, const Dims& sizes) {
  if (starts.size() != x.dims().size() || sizes.size() != x.dims().size())
    throw TypeError("dynamic_slice: rank of " + to_string(x.type()));
  std::vector<Value> operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  TensorType result{x.element(), sizes};
  return x.builder().emit("stablehlo.dynamic_slice", operands, "slice_sizes = " + i64_array(sizes),
                          std::span<const TensorType>(&result, 1))[0];
}

Value dynamic_update_slice(Value x, Value update, std::span<const Value> starts) {
  if (update.element() != x.element() || update.rank() != x.rank())
    throw TypeError("dynamic_update_slice: " + to_string(update.type()) + " into " + to_string(x.type()));
  std::vector<Value> operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return x.builder().emit("stablehlo.dynamic_update_slice", operands, "", std::span<const TensorType>(&x.type(), 1))[0];
}

Value pad(Value x, Value fill, const Dims& low, const Dims& high, const Dims& interior) {
  Dims inner = interior.empty() ? Dims(low.size(), 0) : interior;
  TensorType result{x.element(), {}};
  bool identity = true;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t d = x.dims().at(i);
    const int64_t size = low[i] + high[i] + d + (d > 0 ? (d - 1) * inner[i] : 0);
    if (size < 0) throw TypeError("pad: negative size of " + to_string(x.type()));
    identity &= low[i] == 0 && high[i] == 0 && inner[i] == 0;
    result.dims.push_back(size);
  }
  if (identity) return x;
  if (fill.element() != x.element() || fill.rank() != 0) throw TypeError("pad: fill " + to_string(fill.type()));
  return x.builder().emit1("stablehlo.pad", {x, fill},
                           "edge_padding_high = " + i64_array(high) + ", edge_padding_low = " + i64_array(low) +
                               ", interior_padding = " + i64_array(inner),
                           result);
}

Value concatenate(std::span<const Value> xs, int64_t dim) {
  if (xs.size() == 1) return xs[0];
  TensorType result = xs[0].type();
  const size_t d = static_cast<size_t>(dim);
  result.dims.at(d) = 0;
  for (const Value& x : xs) {
    if (x.element() != result.element || x.rank() != result.rank())
      throw TypeError("concatenate: " + to_string(x.type()) + " with " + to_string(xs[0].type()));
    result.dims[d] += x.dims()[d];
  }
  return xs[0].builder().emit("stablehlo.concatenate", xs, "dimension = " + std::to_string(dim) + " : i64",
                              std::span<const TensorType>(&result, 1))[0];
}

Value reverse(Value x, const Dims& dims) {
  if (dims.empty()) return x;
  return x.builder().emit1("stablehlo.reverse", {x}, "dimensions = " + i64_array(dims), x.type());
}

static std::string batching(const char* name, const Dims& dims) {
  return dims.empty() ? std::string() : std::string(name) + " = " + bracket_list(dims) + ", ";
}

Value gather(Value operand, Value start_indices, const GatherDims& g, const Dims& slice_sizes,
             bool indices_are_sorted) {
  // Result rank: batch dims of the indices, interleaved with the offset dims.
  Dims window;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    bool dropped = false;
    for (int64_t c : g.collapsed_slice_dims) dropped |= c == i;
    for (int64_t c : g.operand_batching_dims) dropped |= c == i;
    if (!dropped) window.push_back(slice_sizes.at(static_cast<size_t>(i)));
  }
  Dims batch;
  for (int64_t i = 0; i < start_indices.rank(); ++i)
    if (i != g.index_vector_dim) batch.push_back(start_indices.dim(static_cast<int>(i)));
  TensorType result{operand.element(), Dims(window.size() + batch.size(), -1)};
  for (size_t i = 0; i < g.offset_dims.size(); ++i)
    result.dims.at(static_cast<size_t>(g.offset_dims[i])) = window.at(i);
  size_t next = 0;
  for (int64_t& d : result.dims)
    if (d < 0) d = batch.at(next++);
  std::string text = "dimension_numbers = #stablehlo.gather<";
  if (!g.offset_dims.empty()) text += "offset_dims = " + bracket_list(g.offset_dims) + ", ";
  if (!g.collapsed_slice_dims.empty()) text += "collapsed_slice_dims = " + bracket_list(g.collapsed_slice_dims) + ", ";
  text += batching("operand_batching_dims", g.operand_batching_dims);
  text += batching("start_indices_batching_dims", g.start_indices_batching_dims);
  if (!g.start_index_map.empty()) text += "start_index_map = " + bracket_list(g.start_index_map) + ", ";
  text += "index_vector_dim = " + std::to_string(g.index_vector_dim) + ">";
  text += std::string(", indices_are_sorted = ") + (indices_are_sorted ? "true" : "false");
  text += ", slice_sizes = " + i64_array(slice_sizes);
  return operand.builder().emit1("stablehlo.gather", {operand, start_indices}, text, result);
}

Value take(Value x, Value indices, int64_t dim) {
  GatherDims g;
  Dims sizes = x.dims();
  sizes.at(static_cast<size_t>(dim)) = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) g.offset_dims.push_back(i < dim ? i : i + indices.rank() - 1);
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = indices.rank();
  return gather(x, indices, g, sizes);
}

std::vector<Value> scatter_many(std::span<const Value> operands, Value indices, std::span<const Value> updates,
                                const ScatterDims& s, const RegionBody& combine, bool unique_indices) {
  std::string text = std::string("indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<");
  if (!s.update_window_dims.empty()) text += "update_window_dims = " + bracket_list(s.update_window_dims) + ", ";
  if (!s.inserted_window_dims.empty()) text += "inserted_window_dims = " + bracket_list(s.inserted_window_dims) + ", ";
  text += batching("input_batching_dims", s.input_batching_dims);
  text += batching("scatter_indices_batching_dims", s.scatter_indices_batching_dims);
  if (!s.scatter_dims_to_operand_dims.empty())
    text += "scatter_dims_to_operand_dims = " + bracket_list(s.scatter_dims_to_operand_dims) + ", ";
  text += "index_vector_dim = " + std::to_string(s.index_vector_dim) + ">";
  text += std::string(", unique_indices = ") + (unique_indices ? "true" : "false");
  std::vector<Value> values(operands.begin(), operands.end());
  values.push_back(indices);
  values.insert(values.end(), updates.begin(), updates.end());
  Region region;
  std::vector<TensorType> results;
  for (const Value& v : operands) {
    region.arguments.push_back({v.element(), {}});
    results.push_back(v.type());
  }
  for (const Value& v : updates) region.arguments.push_back({v.element(), {}});
  region.body = combine;
  return indices.builder().emit("stablehlo.scatter", values, text, results, std::span<const Region>(&region, 1));
}

Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims, const Combine& combine,
              bool unique_indices) {
  return scatter_many(
      std::span<const Value>(&operand, 1), indices, std::span<const Value>(&updates, 1), dims,
      [&](std::span<const Value> a) { return std::vector<Value>{combine(a[0], a[1])}; }, unique_indices)[0];
}

}  // namespace torch_tpu::stablehlo
