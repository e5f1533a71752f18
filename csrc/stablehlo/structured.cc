#include "stablehlo/structured.h"

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"

namespace torch_tpu::stablehlo {
namespace {

bool contains(const Dims& dims, int64_t d) {
  for (int64_t v : dims)
    if (v == d) return true;
  return false;
}

std::vector<TensorType> scalars_of(std::span<const Value> xs) {
  std::vector<TensorType> types;
  for (const Value& x : xs) types.push_back({x.element(), {}});
  return types;
}

std::string pairs_attribute(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  if (pairs.empty()) return "dense<> : tensor<0x2xi64>";
  std::string s = "dense<[";
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i) s += ", ";
    s += "[" + std::to_string(pairs[i].first) + ", " + std::to_string(pairs[i].second) + "]";
  }
  return s + "]> : tensor<" + std::to_string(pairs.size()) + "x2xi64>";
}

std::string precision_attribute(DotPrecision precision) {
  const char* name = precision == DotPrecision::kHighest ? "HIGHEST"
                     : precision == DotPrecision::kHigh  ? "HIGH"
                                                         : "DEFAULT";
  const std::string one = std::string("#stablehlo<precision ") + name + ">";
  return "precision_config = [" + one + ", " + one + "]";
}

Window filled(const Window& window) {
  Window w = window;
  const size_t rank = w.dimensions.size();
  if (w.strides.empty()) w.strides.assign(rank, 1);
  if (w.base_dilations.empty()) w.base_dilations.assign(rank, 1);
  if (w.window_dilations.empty()) w.window_dilations.assign(rank, 1);
  if (w.padding.empty()) w.padding.assign(rank, {0, 0});
  return w;
}

int64_t window_result(int64_t size, int64_t window, int64_t stride, int64_t base_dilation, int64_t window_dilation,
                      std::pair<int64_t, int64_t> padding) {
  const int64_t dilated = size == 0 ? 0 : (size - 1) * base_dilation + 1;
  const int64_t padded = padding.first + dilated + padding.second;
  const int64_t reach = window == 0 ? 0 : (window - 1) * window_dilation + 1;
  return padded < reach || padded <= 0 ? 0 : (padded - reach) / stride + 1;
}

}  // namespace

RegionBody two_argument_body(const Combine& combine) {
  return [&combine](std::span<const Value> a) { return std::vector<Value>{combine(a[0], a[1])}; };
}

std::vector<Value> reduce_many(std::span<const Value> xs, std::span<const Value> inits, const Dims& dims,
                               const RegionBody& body) {
  std::vector<Value> operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<TensorType> results;
  for (size_t i = 0; i < xs.size(); ++i) {
    TensorType t{inits[i].element(), {}};
    for (int64_t d = 0; d < xs[i].rank(); ++d)
      if (!contains(dims, d)) t.dims.push_back(xs[i].dim(static_cast<int>(d)));
    results.push_back(t);
  }
  Region region{scalars_of(inits), body};
  for (const Value& x : xs) region.arguments.push_back({x.element(), {}});
  return xs[0].builder().emit("stablehlo.reduce", operands, "dimensions = " + i64_array(dims), results,
                              std::span<const Region>(&region, 1));
}

Value reduce(Value x, Value init, const Dims& dims, const Combine& combine) {
  return reduce_many(std::span<const Value>(&x, 1), std::span<const Value>(&init, 1), dims,
                     two_argument_body(combine))[0];
}

std::vector<Value> reduce_window_many(std::span<const Value> xs, std::span<const Value> inits, const Window& window,
                                      const RegionBody& body) {
  const Window w = filled(window);
  std::vector<Value> operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<TensorType> results;
  for (const Value& x : xs) {
    TensorType t{x.element(), {}};
    for (size_t d = 0; d < x.dims().size(); ++d)
      t.dims.push_back(window_result(x.dims()[d], w.dimensions.at(d), w.strides[d], w.base_dilations[d],
                                     w.window_dilations[d], w.padding[d]));
    results.push_back(t);
  }
  Region region{scalars_of(inits), body};
  for (const Value& x : xs) region.arguments.push_back({x.element(), {}});
  return xs[0].builder().emit(
      "stablehlo.reduce_window", operands,
      "base_dilations = " + i64_array(w.base_dilations) + ", padding = " + pairs_attribute(w.padding) +
          ", window_dilations = " + i64_array(w.window_dilations) + ", window_dimensions = " + i64_array(w.dimensions) +
          ", window_strides = " + i64_array(w.strides),
      results, std::span<const Region>(&region, 1));
}

Value reduce_window(Value x, Value init, const Window& window, const Combine& combine) {
  return reduce_window_many(std::span<const Value>(&x, 1), std::span<const Value>(&init, 1), window,
                            two_argument_body(combine))[0];
}

Value select_and_scatter(Value operand, Value source, Value init, const Window& window, const Combine& select,
                         const Combine& combine) {
  const Window w = filled(window);
  std::vector<TensorType> scalars(2, TensorType{operand.element(), {}});
  Region regions[2] = {{scalars, two_argument_body(select)}, {scalars, two_argument_body(combine)}};
  const Value operands[3] = {operand, source, init};
  return operand.builder().emit("stablehlo.select_and_scatter", operands,
                                "padding = " + pairs_attribute(w.padding) + ", window_dimensions = " +
                                    i64_array(w.dimensions) + ", window_strides = " + i64_array(w.strides),
                                std::span<const TensorType>(&operand.type(), 1), regions)[0];
}

std::vector<Value> sort(std::span<const Value> xs, int64_t dim, bool stable,
                        const std::function<Value(std::span<const Value>)>& less) {
  Region region;
  std::vector<TensorType> results;
  for (const Value& x : xs) {
    region.arguments.push_back({x.element(), {}});
    region.arguments.push_back({x.element(), {}});
    results.push_back(x.type());
  }
  region.body = [&](std::span<const Value> a) { return std::vector<Value>{less(a)}; };
  return xs[0].builder().emit(
      "stablehlo.sort", xs, "dimension = " + std::to_string(dim) + " : i64, is_stable = " + (stable ? "true" : "false"),
      results, std::span<const Region>(&region, 1));
}

std::vector<Value> while_loop(std::span<const Value> init,
                              const std::function<Value(std::span<const Value>)>& condition, const RegionBody& body) {
  std::vector<TensorType> types;
  for (const Value& v : init) types.push_back(v.type());
  Region regions[2] = {
      {types, [&](std::span<const Value> a) { return std::vector<Value>{condition(a)}; }},
      {types, body},
  };
  return init[0].builder().emit("stablehlo.while", init, "", types, regions);
}

std::vector<Value> if_then_else(Value predicate, const std::function<std::vector<Value>()>& on_true,
                                const std::function<std::vector<Value>()>& on_false) {
  std::vector<TensorType> types;
  // Both branches are built before the op is printed, so the first one fills in the result types.
  Region regions[2] = {
      {{},
       [&](std::span<const Value>) {
         std::vector<Value> values = on_true();
         for (const Value& v : values) types.push_back(v.type());
         return values;
       }},
      {{}, [&](std::span<const Value>) { return on_false(); }},
  };
  return predicate.builder().emit_with_regions("stablehlo.if", std::span<const Value>(&predicate, 1), "", types,
                                               regions);
}

Value dot_general(Value lhs, Value rhs, const DotDims& d, DotPrecision precision, ElementType result) {
  TensorType t{result == ElementType::kInvalid ? lhs.element() : result, {}};
  for (int64_t i : d.lhs_batch) t.dims.push_back(lhs.dims().at(static_cast<size_t>(i)));
  for (int64_t i = 0; i < lhs.rank(); ++i)
    if (!contains(d.lhs_batch, i) && !contains(d.lhs_contract, i)) t.dims.push_back(lhs.dim(static_cast<int>(i)));
  for (int64_t i = 0; i < rhs.rank(); ++i)
    if (!contains(d.rhs_batch, i) && !contains(d.rhs_contract, i)) t.dims.push_back(rhs.dim(static_cast<int>(i)));
  for (size_t i = 0; i < d.lhs_contract.size(); ++i)
    if (lhs.dims().at(static_cast<size_t>(d.lhs_contract[i])) !=
        rhs.dims().at(static_cast<size_t>(d.rhs_contract.at(i))))
      throw TypeError("dot_general: " + to_string(lhs.type()) + " with " + to_string(rhs.type()));
  return lhs.builder().emit1(
      "stablehlo.dot_general", {lhs, rhs},
      "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = " + bracket_list(d.lhs_batch) +
          ", rhs_batching_dimensions = " + bracket_list(d.rhs_batch) +
          ", lhs_contracting_dimensions = " + bracket_list(d.lhs_contract) +
          ", rhs_contracting_dimensions = " + bracket_list(d.rhs_contract) + ">, " + precision_attribute(precision),
      t);
}

// "b, f, 0, 1": which role each dimension plays.
static std::string dimension_roles(int rank, int64_t first, const char* first_name, int64_t second,
                                   const char* second_name, const Dims& spatial) {
  std::string s = "[";
  for (int64_t i = 0; i < rank; ++i) {
    if (i) s += ", ";
    if (i == first) {
      s += first_name;
    } else if (i == second) {
      s += second_name;
    } else {
      for (size_t k = 0; k < spatial.size(); ++k)
        if (spatial[k] == i) s += std::to_string(k);
    }
  }
  return s + "]";
}

Value convolution(Value lhs, Value rhs, const ConvolutionDims& c, DotPrecision precision, ElementType result) {
  const size_t n = c.input_spatial.size();
  const Dims ones(n, 1);
  const Dims& strides = c.window_strides.empty() ? ones : c.window_strides;
  const Dims& lhs_dilation = c.lhs_dilation.empty() ? ones : c.lhs_dilation;
  const Dims& rhs_dilation = c.rhs_dilation.empty() ? ones : c.rhs_dilation;
  std::vector<std::pair<int64_t, int64_t>> padding = c.padding;
  if (padding.empty()) padding.assign(n, {0, 0});
  TensorType t{result == ElementType::kInvalid ? lhs.element() : result, Dims(lhs.dims().size(), 0)};
  t.dims.at(static_cast<size_t>(c.output_batch)) =
      lhs.dims().at(static_cast<size_t>(c.input_batch)) / c.batch_group_count;
  t.dims.at(static_cast<size_t>(c.output_feature)) = rhs.dims().at(static_cast<size_t>(c.kernel_output_feature));
  for (size_t i = 0; i < n; ++i)
    t.dims.at(static_cast<size_t>(c.output_spatial[i])) = window_result(
        lhs.dims().at(static_cast<size_t>(c.input_spatial[i])), rhs.dims().at(static_cast<size_t>(c.kernel_spatial[i])),
        strides[i], lhs_dilation[i], rhs_dilation[i], padding[i]);
  std::string text =
      "batch_group_count = " + std::to_string(c.batch_group_count) + " : i64, dimension_numbers = #stablehlo.conv<" +
      dimension_roles(lhs.rank(), c.input_batch, "b", c.input_feature, "f", c.input_spatial) + "x" +
      dimension_roles(rhs.rank(), c.kernel_output_feature, "o", c.kernel_input_feature, "i", c.kernel_spatial) + "->" +
      dimension_roles(lhs.rank(), c.output_batch, "b", c.output_feature, "f", c.output_spatial) +
      ">, feature_group_count = " + std::to_string(c.feature_group_count) +
      " : i64, lhs_dilation = " + i64_array(lhs_dilation) + ", padding = " + pairs_attribute(padding) + ", " +
      precision_attribute(precision) + ", rhs_dilation = " + i64_array(rhs_dilation) +
      ", window_strides = " + i64_array(strides);
  if (!c.window_reversal.empty()) {
    text += ", window_reversal = array<i1: ";
    for (size_t i = 0; i < n; ++i) text += std::string(i ? ", " : "") + (c.window_reversal[i] ? "true" : "false");
    text += ">";
  }
  return lhs.builder().emit1("stablehlo.convolution", {lhs, rhs}, text, t);
}

Value fft(Value x, FftType type, const Dims& length) {
  static constexpr const char* kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  TensorType t = x.type();
  if (type == FftType::kRfft) {
    t.element = complex_type(x.element());
    t.dims.back() = length.back() / 2 + 1;
  } else if (type == FftType::kIrfft) {
    t.element = real_type(x.element());
    t.dims.back() = length.back();
  }
  return x.builder().emit1(
      "stablehlo.fft", {x},
      "fft_length = " + i64_array(length) + ", fft_type = #stablehlo<fft_type " + kNames[static_cast<int>(type)] + ">",
      t);
}

Value cholesky(Value a, bool lower) {
  return a.builder().emit1("stablehlo.cholesky", {a}, std::string("lower = ") + (lower ? "true" : "false"), a.type());
}

Value triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal, Transpose transpose_a) {
  static constexpr const char* kNames[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  auto flag = [](bool v) { return std::string(v ? "true" : "false"); };
  return a.builder().emit1("stablehlo.triangular_solve", {a, b},
                           "left_side = " + flag(left_side) + ", lower = " + flag(lower) +
                               ", transpose_a = #stablehlo<transpose " + kNames[static_cast<int>(transpose_a)] +
                               ">, unit_diagonal = " + flag(unit_diagonal),
                           b.type());
}

std::pair<Value, Value> rng_bit_generator(Value state, ElementType bits, const Dims& dims) {
  const TensorType results[2] = {state.type(), {bits, dims}};
  std::vector<Value> r = state.builder().emit("stablehlo.rng_bit_generator", std::span<const Value>(&state, 1),
                                              "rng_algorithm = #stablehlo<rng_algorithm PHILOX>", results);
  return {r[0], r[1]};
}

std::vector<Value> top_k(Value x, int64_t k) {
  TensorType results[2] = {x.type(), {ElementType::kS32, x.dims()}};
  results[0].dims.back() = results[1].dims.back() = k;
  return x.builder().emit("chlo.top_k", std::span<const Value>(&x, 1), "k = " + std::to_string(k) + " : i64", results);
}

std::vector<Value> custom_call(std::string_view target, std::span<const Value> operands,
                               std::span<const TensorType> results, std::string_view backend_config,
                               bool has_side_effect) {
  std::string text = "api_version = 4 : i32, backend_config = " + std::string(backend_config) +
                     ", call_target_name = \"" + std::string(target) +
                     "\", has_side_effect = " + (has_side_effect ? "true" : "false");
  return operands[0].builder().emit("stablehlo.custom_call", operands, text, results);
}

std::vector<Value> optimization_barrier(std::span<const Value> xs) {
  std::vector<TensorType> types;
  for (const Value& x : xs) types.push_back(x.type());
  return xs[0].builder().emit("stablehlo.optimization_barrier", xs, "", types);
}

}  // namespace torch_tpu::stablehlo
