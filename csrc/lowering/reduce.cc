// Sums, products, extremes, any/all and their relatives. Statistics and norms are in reduce_statistics.cc, reductions
// that give indices in reduce_select.cc.
#include <algorithm>
#include <limits>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

bool flag(const Op& op, std::string_view arg) { return op.has(arg) && op.boolean(arg); }

// "dim" in any of its forms: absent, int, int[].
Dims dims_of(const Op& op) {
  const int64_t rank = op.rank("self");
  if (!op.has("dim")) return all_dims(rank);
  if (std::holds_alternative<int64_t>(op.arguments().find("dim")->second.value)) {
    const int64_t dim = wrap_dim(op.integer("dim"), rank);
    return rank == 0 ? Dims{} : Dims{dim};
  }
  return reduction_dims(op, "dim", rank);
}

Value finish(const Op& op, Value reduced, const Dims& dims) {
  return flag(op, "keepdim") ? keep_dims(reduced, op.dims("self"), dims) : reduced;
}

// The type of sums and products: the dtype asked for, integers to int64.
ElementType accumulated_type(const Op& op) {
  if (auto dtype = op.dtype("dtype")) return *dtype;
  const ElementType e = op.element("self");
  return is_integer(e) || is_bool(e) ? ElementType::kS64 : e;
}

Value sum_of(const Op& op, Value x, ElementType out, const Dims& dims) {
  Value s = is_bool(out) ? reduce_or(x, dims) : sum_opmath(x, dims);
  return finish(op, convert(s, out), dims);
}

Value sum(Op& op) {
  const ElementType out = accumulated_type(op);
  return sum_of(op, op.tensor("self", out), out, dims_of(op));
}

Value nansum(Op& op) {
  const ElementType out = accumulated_type(op);
  Value x = op.tensor("self", out);
  return sum_of(op, select(is_nan(x), constant_like(x, 0), x), out, dims_of(op));
}

Value mean(Op& op) {
  const ElementType out = op.dtype("dtype").value_or(op.element("self"));
  const Dims dims = dims_of(op);
  Value x = op.tensor("self", out);
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dim(static_cast<int>(d));
  Value s = sum_opmath(x, dims);
  if (is_complex(s.element())) {
    Value count = constant_like(real(s), n);
    s = complex(real(s) / count, imag(s) / count);
  } else {
    s = s / constant_like(s, n);
  }
  return finish(op, convert(s, out), dims);
}

Value prod(Op& op) {
  const ElementType out = accumulated_type(op);
  const Dims dims = dims_of(op);
  Value x = op.tensor("self", out);
  Value p = is_bool(out) ? reduce_and(x, dims) : reduce_product(convert(x, opmath_type(out)), dims);
  return finish(op, convert(p, out), dims);
}

void require_elements(const Op& op, const Dims& dims) {
  const std::string name = op.name().substr(0, op.name().find('.'));
  for (int64_t d : dims) {
    if (op.dims("self")[static_cast<size_t>(d)] != 0) continue;
    if (op.has("dim"))
      throw CallIndexError(name + "(): Expected reduction dim " + std::to_string(d) + " to have non-zero size.");
    throw CallError(name +
                    "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
                    "the 'dim' argument.");
  }
}

Value extreme(Op& op, Value (*reduction)(Value, const Dims&)) {
  const Dims dims = dims_of(op);
  require_elements(op, dims);
  return finish(op, reduction(op.tensor("self"), dims), dims);
}
Value maximum_of(Op& op) { return extreme(op, reduce_max); }
Value minimum_of(Op& op) { return extreme(op, reduce_min); }
Results aminmax(Op& op) { return {minimum_of(op), maximum_of(op)}; }

// bool for all types but uint8, which stays.
Value truth(Op& op, Value (*reduction)(Value, const Dims&), const Dims& dims) {
  const ElementType e = op.element("self");
  Value result = reduction(op.tensor("self", ElementType::kPred), dims);
  return finish(op, convert(result, e == ElementType::kU8 ? e : ElementType::kPred), dims);
}
Value any(Op& op) { return truth(op, reduce_or, dims_of(op)); }
Value all(Op& op) { return truth(op, reduce_and, dims_of(op)); }
// An empty list of dims reduces nothing here, unlike None.
Dims explicit_dims(const Op& op) { return op.has("dim") && op.integers("dim").empty() ? Dims{} : dims_of(op); }
Value any_dims(Op& op) { return truth(op, reduce_or, explicit_dims(op)); }
Value all_dims_of(Op& op) { return truth(op, reduce_and, explicit_dims(op)); }

Value count_nonzero(Op& op) {
  const Dims dims = dims_of(op);
  return reduce_sum(convert(op.tensor("self", ElementType::kPred), ElementType::kS64), dims);
}

// The exclusive or of the elements' bits, each widened to 64 bits.
Value hash_tensor(Op& op) {
  if (op.integer("mode") != 0)
    throw CallError("hash_tensor: mode " + std::to_string(op.integer("mode")) + " is unknown");
  Value x = op.tensor("self");
  if (is_floating(x.element())) x = bitcast_convert(convert(x, ElementType::kF64), ElementType::kU64);
  const Dims dims = dims_of(op);
  x = convert(x, ElementType::kU64);
  return finish(op, reduce(x, constant(op.builder(), ElementType::kU64, 0), dims, logical_xor), dims);
}

Value trace(Op& op) {
  Value x = op.tensor("self");
  if (x.rank() != 2) throw CallError("trace: expected a matrix, but got tensor with dim " + std::to_string(x.rank()));
  const ElementType out = is_integer(x.element()) || is_bool(x.element()) ? ElementType::kS64 : x.element();
  const int64_t columns = x.dim(1), n = std::min(x.dim(0), columns);
  if (n == 0) return constant(op.builder(), out, 0);
  // The diagonal is every (columns + 1)-th element of the flat matrix.
  Value diagonal = slice_dim(flatten(x), 0, 0, (n - 1) * (columns + 1) + 1, columns + 1);
  return convert(sum_opmath(convert(diagonal, out), {0}), out);
}

Value logsumexp(Op& op) {
  const ElementType out = to_float(op, op.element("self"));
  const Dims dims = dims_of(op);
  Value x = op.tensor("self", opmath_type(out));
  Value shift;
  if (x.numel() != 0) {
    shift = keep_dims(reduce_max(real(x), dims), x.dims(), dims);
    // Infinite maxima are left out of the shift, as inf - inf would be NaN.
    shift = select(is_inf(shift), constant_like(shift, 0), shift);
    x = x - convert(broadcast_to(shift, x.dims()), x.element());
  }
  Value sums = log(reduce_sum(exponential(x), dims));
  if (shift.defined()) sums = sums + convert(reshape(shift, sums.dims()), sums.element());
  return finish(op, convert(sums, out), dims);
}

}  // namespace

void register_reduce(Registry& r) {
  r.add("sum", sum);
  r.add("sum.dim_IntList", sum);
  r.add("nansum", nansum);
  r.add("mean", mean);
  r.add("mean.dim", mean);
  r.add("prod", prod);
  r.add("prod.dim_int", prod);
  r.add("amax", maximum_of);
  r.add("amin", minimum_of);
  r.add("max", maximum_of);
  r.add("min", minimum_of);
  r.add("aminmax", aminmax);
  r.add("_aminmax", aminmax);
  r.add("_aminmax.dim", aminmax);
  r.add("any", any);
  r.add("any.dim", any);
  r.add("any.dims", any_dims);
  r.add("all", all);
  r.add("all.dim", all);
  r.add("all.dims", all_dims_of);
  r.add("count_nonzero", count_nonzero);
  r.add("count_nonzero.dim_IntList", count_nonzero);
  r.add("hash_tensor", hash_tensor)
      .not_on_tpu({ElementType::kBF16, ElementType::kF16, ElementType::kF32, ElementType::kF64},
                  "hash_tensor of floats needs the bits of float64, which TPUs do not have");
  r.add("trace", trace);
  r.add("logsumexp", logsumexp);
  register_reduce_statistics(r);
  register_reduce_select(r);
}

}  // namespace torch_tpu::lowering
