// The StableHLO of access plans.
#include <algorithm>

#include "runtime/access_plan.h"

namespace torch_tpu::runtime {
using namespace stablehlo;
namespace {

// Start indices are i32 unless the array is too long for that.
ElementType index_type(std::span<const Value> starts) {
  return starts.empty() ? ElementType::kS32 : starts[0].element();
}

Value flatten_to(Value x, int64_t n) { return reshape(x, {n}); }

int64_t product_of(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Value interleave(Value re, Value im) {
  Dims dims = re.dims();
  dims.push_back(1);
  const Value parts[2] = {reshape(re, dims), reshape(im, dims)};
  return concatenate(parts, static_cast<int64_t>(dims.size()) - 1);
}

}  // namespace

Value AccessPlan::to_typed(Value base) const {
  const ElementType from = base.element();
  if (from == type_) return base;
  // The array need not end at an element of the view's type: u8[10] seen as i32.
  if (const int64_t covered = base_elements_seen(); covered < base.numel())
    base = slice(flatten_to(base, base.numel()), {0}, {covered});
  // Bool and complex have no bit pattern in StableHLO: a bool is a 0/1 byte, a complex number is two reals.
  if (is_bool(from)) base = convert(base, ElementType::kU8);
  if (is_complex(from)) base = interleave(real(base), imag(base));
  ElementType target = is_complex(type_) ? real_type(type_) : is_bool(type_) ? ElementType::kU8 : type_;
  if (base.element() != target) {
    const auto have = static_cast<int64_t>(byte_size(base.element())), want = static_cast<int64_t>(byte_size(target));
    if (want > have) base = reshape(base, {base.numel() * have / want, want / have});
    base = bitcast_convert(base, target);
  }
  if (is_bool(type_)) base = not_equal(base, constant_like(base, 0));
  if (is_complex(type_)) {
    base = reshape(base, {base.numel() / 2, 2});
    base = complex(reshape(slice_dim(base, 1, 0, 1), {base.dim(0)}), reshape(slice_dim(base, 1, 1, 2), {base.dim(0)}));
  }
  return reshape(base, typed_dims_);
}

Value AccessPlan::from_typed(Value typed, Value base) const {
  if (geometry_.base.element == type_) return reshape(typed, geometry_.base.dims);
  // The same conversion with the roles exchanged.
  AccessPlan inverse;
  inverse.geometry_.base = {type_, typed_dims_};
  inverse.type_ = geometry_.base.element;
  const int64_t covered = base_elements_seen(), all = geometry_.base.numel();
  if (covered == all) {
    inverse.typed_dims_ = geometry_.base.dims;
    return inverse.to_typed(typed);
  }
  inverse.typed_dims_ = {covered};
  const Value parts[2] = {inverse.to_typed(typed), slice(flatten_to(base, all), {covered}, {all})};
  return reshape(concatenate(parts, 0), geometry_.base.dims);
}

int64_t AccessPlan::base_elements_seen() const {
  const auto view_bytes = static_cast<int64_t>(byte_size(type_));
  return product_of(typed_dims_) * view_bytes / static_cast<int64_t>(byte_size(geometry_.base.element));
}

Value AccessPlan::window_to_view(Value window) const {
  Dims ordered;
  for (size_t k = 0; k < order_.size(); ++k) ordered.push_back(geometry_.sizes[static_cast<size_t>(order_[k])]);
  // Window dims that no view dim uses have size one, and the used ones may come in any order.
  std::vector<size_t> by_position(order_.size());
  for (size_t k = 0; k < by_position.size(); ++k) by_position[k] = k;
  std::sort(by_position.begin(), by_position.end(), [&](size_t a, size_t b) { return position_[a] < position_[b]; });
  Dims squeezed;
  for (size_t k : by_position) squeezed.push_back(ordered[k]);
  Value x = reshape(window, squeezed);
  // View dims that are present, in view order.
  Dims present;
  for (size_t i = 0; i < geometry_.sizes.size(); ++i)
    for (size_t k = 0; k < by_position.size(); ++k)
      if (order_[by_position[k]] == static_cast<int>(i)) present.push_back(static_cast<int64_t>(k));
  x = transpose(x, present);
  Dims with_ones, target = geometry_.sizes;
  for (size_t i = 0; i < target.size(); ++i)
    with_ones.push_back(std::find(order_.begin(), order_.end(), static_cast<int>(i)) != order_.end() ? target[i] : 1);
  return broadcast_to(reshape(x, with_ones), target);
}

Value AccessPlan::view_to_window(Value view) const {
  std::vector<size_t> by_position(order_.size());
  for (size_t k = 0; k < by_position.size(); ++k) by_position[k] = k;
  std::sort(by_position.begin(), by_position.end(), [&](size_t a, size_t b) { return position_[a] < position_[b]; });
  // Drop dims of size one and expanded dims (all their elements are equal by the caller's overlap check).
  Dims starts(view.dims().size(), 0), limits = view.dims(), squeezed, present;
  for (size_t i = 0; i < limits.size(); ++i) {
    const bool used = std::find(order_.begin(), order_.end(), static_cast<int>(i)) != order_.end();
    if (!used) limits[i] = 1;
    if (used) {
      squeezed.push_back(limits[i]);
      present.push_back(static_cast<int64_t>(i));
    }
  }
  Value x = reshape(slice(view, starts, limits), squeezed);
  Dims permutation;
  for (size_t k : by_position)
    permutation.push_back(std::find(present.begin(), present.end(), static_cast<int64_t>(order_[k])) - present.begin());
  x = transpose(x, permutation);
  Dims window(window_base_.size(), 1);
  for (size_t k = 0; k < order_.size(); ++k)
    window[static_cast<size_t>(position_[k])] = geometry_.sizes[static_cast<size_t>(order_[k])];
  return reshape(x, window);
}

std::vector<Value> AccessPlan::full_starts(std::span<const Value> starts, Builder& b) const {
  std::vector<Value> full;
  size_t next = 0;
  for (size_t k = 0; k < window_base_.size(); ++k) {
    const bool runtime = next < start_dims_.size() && start_dims_[next] == static_cast<int>(k);
    full.push_back(runtime ? starts[next++] : constant(b, index_type(starts), 0));
  }
  return full;
}

Value AccessPlan::linear_indices(Value start, Builder& b) const {
  Value index = broadcast_in_dim(start, geometry_.sizes, {});
  for (size_t i = 0; i < geometry_.sizes.size(); ++i) {
    if (geometry_.sizes[i] == 1 || geometry_.strides[i] == 0) continue;
    Value steps = iota(b, start.element(), geometry_.sizes, static_cast<int64_t>(i));
    index = add(index, multiply(steps, constant_like(steps, geometry_.strides[i])));
  }
  return index;
}

Value AccessPlan::emit_read(Value base, std::span<const Value> starts) const {
  if (form_ == Form::kEmpty) return constant(base.builder(), geometry_.type, 0, geometry_.sizes);
  return convert(read_carrier(base, starts), geometry_.type);
}

Value AccessPlan::read_carrier(Value base, std::span<const Value> starts) const {
  Builder& b = base.builder();
  Value typed = to_typed(base);
  if (form_ == Form::kGather) return take(flatten_to(typed, typed.numel()), linear_indices(starts[0], b), 0);
  if (form_ == Form::kFlatWindow) {
    Value flat = dynamic_slice(flatten_to(typed, typed.numel()), starts, {flat_length_});
    flat = pad(flat, constant(b, type_, 0), {0}, {product_of(window_base_) - flat_length_});
    Value window = reshape(flat, window_base_);
    return window_to_view(slice(window, Dims(window_base_.size(), 0), window_sizes_));
  }
  Value window = reshape(typed, window_base_);
  if (!start_dims_.empty()) window = dynamic_slice(window, full_starts(starts, b), window_sizes_);
  if (form_ == Form::kStepped) window = slice(window, Dims(window_base_.size(), 0), window_sizes_, window_steps_);
  return window_to_view(window);
}

Value AccessPlan::emit_write(Value base, Value view, std::span<const Value> starts, Builder& b) const {
  if (form_ == Form::kEmpty) return base;
  view = convert(view, type_);
  if (covers()) return reshape(view_to_window(view), geometry_.base.dims);
  Value typed = to_typed(base);
  switch (form_) {
    case Form::kWhole:
      return from_typed(reshape(view_to_window(view), typed_dims_), base);
    case Form::kGather: {
      ScatterDims s;
      s.inserted_window_dims = {0};
      s.scatter_dims_to_operand_dims = {0};
      Value indices = linear_indices(starts[0], b);
      s.index_vector_dim = indices.rank();
      Value flat =
          scatter(flatten_to(typed, typed.numel()), indices, view, s, [](Value, Value fresh) { return fresh; });
      return from_typed(reshape(flat, typed_dims_), base);
    }
    case Form::kFlatWindow: {
      Value flat = flatten_to(typed, typed.numel());
      Value old = dynamic_slice(flat, starts, {flat_length_});
      const int64_t padded = product_of(window_base_);
      Value window = reshape(pad(old, constant(b, type_, 0), {0}, {padded - flat_length_}), window_base_);
      const std::vector<Value> zeros(window_base_.size(), constant(b, index_type(starts), 0));
      window = dynamic_update_slice(window, view_to_window(view), zeros);
      Value fresh = slice(flatten_to(window, padded), {0}, {flat_length_});
      return from_typed(reshape(dynamic_update_slice(flat, fresh, starts), typed_dims_), base);
    }
    default:
      break;
  }
  Value array = reshape(typed, window_base_), update = view_to_window(view);
  const std::vector<Value> at = full_starts(starts, b);
  const bool stepped = std::any_of(window_steps_.begin(), window_steps_.end(), [](int64_t s) { return s != 1; });
  if (stepped) {
    // Spread the update over the span and keep the old elements between the steps.
    Dims zeros(window_base_.size(), 0), interior, high;
    for (size_t k = 0; k < window_base_.size(); ++k) {
      interior.push_back(window_steps_[k] - 1);
      high.push_back(window_sizes_[k] - ((update.dim(static_cast<int>(k)) - 1) * window_steps_[k] + 1));
    }
    Value hit = pad(constant(b, ElementType::kPred, true, update.dims()), constant(b, ElementType::kPred, false), zeros,
                    high, interior);
    Value spread = pad(update, constant(b, type_, 0), zeros, high, interior);
    update = select(hit, spread, dynamic_slice(array, at, window_sizes_));
  }
  return from_typed(reshape(dynamic_update_slice(array, update, at), typed_dims_), base);
}

}  // namespace torch_tpu::runtime
