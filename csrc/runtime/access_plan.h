// How a strided view reads and writes the dense array beneath it.
//
// A plan depends on geometry (array type and dims, view type, sizes, strides), not on the storage offset: the offset
// becomes start indices, which are runtime inputs of the program, so `x[i]` is one program for all i.
//
// Forms, tried in this order:
//   kWhole       the view is the array, up to a reshape and a transpose; no starts.
//   kChain       the array is reshaped so that each view dim is one of its dims; a slice picks the window.
//   kStepped     each view dim is a stepped range of one dim of the array.
//   kFlatWindow  (irregular) a range of the flat array is cut out, padded and reshaped; for diagonals and windows that
//                wrap around dims of the array.
//   kGather      (irregular) element by element; for overlapping windows.
// The first three need the offset to fit without wrapping around a dim: starts() says so. Where it does not, the caller
// takes the irregular plan of the same geometry.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lowering/op.h"

namespace torch_tpu::runtime {

using stablehlo::Dims;
using stablehlo::Value;

struct ViewGeometry {
  stablehlo::TensorType base;  // the array
  ElementType type;            // of the view
  Dims sizes, strides;         // of the view, in elements of `type`
};

class AccessPlan {
 public:
  enum class Form { kEmpty, kWhole, kChain, kStepped, kFlatWindow, kGather };

  static AccessPlan make(const ViewGeometry& geometry, bool irregular);

  Form form() const { return form_; }
  // Number of runtime start indices that emit_* take.
  size_t num_starts() const { return num_starts_; }
  // Start indices for an offset (in elements of the view's type). False: the offset does not fit this plan.
  bool starts(int64_t offset, int64_t* out) const;
  // True when a write replaces every element of the array, so that the old contents are not needed.
  bool covers() const { return form_ == Form::kWhole && broadcast_free_ && type_ == geometry_.base.element; }

  // The view's value, read from the array.
  Value emit_read(Value base, std::span<const Value> starts) const;
  // The array after `view` was written. `base` may be undefined where covers().
  Value emit_write(Value base, Value view, std::span<const Value> starts, stablehlo::Builder& builder) const;

 private:
  void make_regular();
  void make_irregular();
  bool try_whole();
  bool try_chain(bool with_base_dims);
  bool try_stepped();
  Value read_carrier(Value base, std::span<const Value> starts) const;
  Value to_typed(Value base) const;
  // `base`: the array before, for the bytes past the last element of the view's type.
  Value from_typed(Value typed, Value base) const;
  int64_t base_elements_seen() const;
  // Between the sliced window (one dim per window dim) and the view's sizes.
  Value window_to_view(Value window) const;
  Value view_to_window(Value view) const;
  std::vector<Value> full_starts(std::span<const Value> starts, stablehlo::Builder& b) const;
  Value linear_indices(Value start, stablehlo::Builder& b) const;

  ViewGeometry geometry_;
  Form form_ = Form::kGather;
  // The view's type; bytes for a bool view of other memory, so that a write leaves its neighbours' bits alone.
  ElementType type_ = ElementType::kInvalid;
  Dims typed_dims_;                   // the array's dims seen as elements of type_
  Dims window_base_;                  // dims that the array is reshaped to before slicing
  Dims window_strides_;               // row strides of window_base_
  Dims window_sizes_, window_steps_;  // per dim of window_base_
  std::vector<int> start_dims_;       // dims of window_base_ that are not taken whole: one start each
  std::vector<int> order_;            // view dims with size > 1 and stride > 0, by stride, descending
  std::vector<int> position_;         // their dims in window_base_
  int64_t flat_length_ = 0;           // kFlatWindow: elements cut out
  size_t num_starts_ = 0;
  bool broadcast_free_ = true;
};

}  // namespace torch_tpu::runtime
