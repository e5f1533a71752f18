#include "runtime/access_plan.h"

#include <algorithm>
#include <set>

namespace torch_tpu::runtime {
namespace {

int64_t product(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Dims row_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

}  // namespace

AccessPlan AccessPlan::make(const ViewGeometry& geometry, bool irregular) {
  AccessPlan plan;
  plan.geometry_ = geometry;
  plan.type_ = is_bool(geometry.type) && !is_bool(geometry.base.element) ? ElementType::kU8 : geometry.type;
  // The array seen in the view's type. Complex counts as two reals.
  const ElementType from = geometry.base.element;
  const auto from_bytes = static_cast<int64_t>(byte_size(from)), to_bytes = static_cast<int64_t>(byte_size(plan.type_));
  plan.typed_dims_ = geometry.base.dims;
  if (from_bytes != to_bytes) plan.typed_dims_ = {geometry.base.numel() * from_bytes / to_bytes};

  if (product(geometry.sizes) == 0) {
    plan.form_ = Form::kEmpty;
    return plan;
  }
  for (size_t i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] == 1) continue;
    if (geometry.strides[i] == 0) {
      plan.broadcast_free_ = false;
      continue;
    }
    plan.order_.push_back(static_cast<int>(i));
  }
  std::stable_sort(plan.order_.begin(), plan.order_.end(), [&](int a, int b) {
    return geometry.strides[static_cast<size_t>(a)] > geometry.strides[static_cast<size_t>(b)];
  });
  if (irregular) {
    plan.make_irregular();
  } else {
    plan.make_regular();
  }
  plan.num_starts_ = plan.form_ == Form::kFlatWindow || plan.form_ == Form::kGather ? 1 : plan.start_dims_.size();
  return plan;
}

void AccessPlan::make_regular() {
  if (try_whole() || try_chain(true) || try_stepped() || try_chain(false)) return;
  make_irregular();
}

bool AccessPlan::try_whole() {
  // Dense in stride order and as large as the array.
  int64_t expected = 1;
  for (size_t k = order_.size(); k-- > 0;) {
    const auto i = static_cast<size_t>(order_[k]);
    if (geometry_.strides[i] != expected) return false;
    expected *= geometry_.sizes[i];
  }
  if (expected != product(typed_dims_)) return false;
  form_ = Form::kWhole;
  for (size_t k = 0; k < order_.size(); ++k) {
    window_base_.push_back(geometry_.sizes[static_cast<size_t>(order_[k])]);
    position_.push_back(static_cast<int>(k));
  }
  window_sizes_ = window_base_;
  window_strides_ = row_strides(window_base_);
  window_steps_.assign(window_base_.size(), 1);
  return true;
}

bool AccessPlan::try_chain(bool with_base_dims) {
  const int64_t total = product(typed_dims_);
  std::set<int64_t, std::greater<>> strides{1};
  for (int i : order_) strides.insert(geometry_.strides[static_cast<size_t>(i)]);
  if (with_base_dims) {
    const Dims base_strides = row_strides(typed_dims_);
    for (size_t j = 0; j < typed_dims_.size(); ++j)
      if (typed_dims_[j] > 1) strides.insert(base_strides[j]);
  }
  Dims chain(strides.begin(), strides.end());
  if (total % chain[0] != 0) return false;
  Dims base{total / chain[0]};
  for (size_t k = 1; k < chain.size(); ++k) {
    if (chain[k - 1] % chain[k] != 0) return false;
    base.push_back(chain[k - 1] / chain[k]);
  }
  Dims sizes(base.size(), 1);
  std::vector<int> position;
  std::vector<bool> used(base.size(), false);
  for (int i : order_) {
    const auto k = static_cast<size_t>(
        std::find(chain.begin(), chain.end(), geometry_.strides[static_cast<size_t>(i)]) - chain.begin());
    if (used[k] || geometry_.sizes[static_cast<size_t>(i)] > base[k]) return false;
    used[k] = true;
    sizes[k] = geometry_.sizes[static_cast<size_t>(i)];
    position.push_back(static_cast<int>(k));
  }
  form_ = Form::kChain;
  window_base_ = base;
  window_strides_ = chain;
  window_sizes_ = sizes;
  window_steps_.assign(base.size(), 1);
  position_ = position;
  start_dims_.clear();
  for (size_t k = 0; k < base.size(); ++k)
    if (sizes[k] < base[k]) start_dims_.push_back(static_cast<int>(k));
  return true;
}

bool AccessPlan::try_stepped() {
  const Dims base_strides = row_strides(typed_dims_);
  Dims spans(typed_dims_.size(), 1), steps(typed_dims_.size(), 1);
  std::vector<int> position;
  std::vector<bool> used(typed_dims_.size(), false);
  for (int i : order_) {
    const int64_t stride = geometry_.strides[static_cast<size_t>(i)], size = geometry_.sizes[static_cast<size_t>(i)];
    bool found = false;
    // The outermost dim whose stride divides the view's.
    for (size_t j = 0; j < typed_dims_.size() && !found; ++j) {
      if (used[j] || typed_dims_[j] <= 1 || base_strides[j] > stride || stride % base_strides[j] != 0) continue;
      const int64_t step = stride / base_strides[j], span = (size - 1) * step + 1;
      if (span > typed_dims_[j]) continue;
      used[j] = found = true;
      spans[j] = span;
      steps[j] = step;
      position.push_back(static_cast<int>(j));
    }
    if (!found) return false;
  }
  form_ = Form::kStepped;
  window_base_ = typed_dims_;
  window_strides_ = base_strides;
  window_sizes_ = spans;
  window_steps_ = steps;
  position_ = position;
  start_dims_.clear();
  for (size_t j = 0; j < typed_dims_.size(); ++j)
    if (spans[j] < typed_dims_[j]) start_dims_.push_back(static_cast<int>(j));
  return true;
}

void AccessPlan::make_irregular() {
  start_dims_.clear();
  position_.clear();
  window_base_.clear();
  window_sizes_.clear();
  // kFlatWindow: strides divide one another and no dim reaches into the next step of the dim before it.
  bool nested = !order_.empty();
  flat_length_ = 1;
  for (size_t k = order_.size(); k-- > 0;) {
    const auto i = static_cast<size_t>(order_[k]);
    const int64_t stride = geometry_.strides[i];
    if (flat_length_ > stride) nested = false;  // the dims inside would overlap the next step
    if (k + 1 < order_.size() && stride % geometry_.strides[static_cast<size_t>(order_[k + 1])] != 0) nested = false;
    flat_length_ += (geometry_.sizes[i] - 1) * stride;
  }
  if (!nested) {
    form_ = Form::kGather;
    return;
  }
  form_ = Form::kFlatWindow;
  int64_t outer = 0;
  for (size_t k = 0; k < order_.size(); ++k) {
    const auto i = static_cast<size_t>(order_[k]);
    const int64_t stride = geometry_.strides[i];
    window_base_.push_back(k == 0 ? geometry_.sizes[i] : outer / stride);
    window_sizes_.push_back(geometry_.sizes[i]);
    position_.push_back(static_cast<int>(k));
    outer = stride;
  }
  window_base_.push_back(outer);  // the gap below the innermost stride
  window_sizes_.push_back(1);
  window_steps_.assign(window_base_.size(), 1);
}

bool AccessPlan::starts(int64_t offset, int64_t* out) const {
  switch (form_) {
    case Form::kEmpty:
    case Form::kWhole:
      return true;
    case Form::kFlatWindow:
    case Form::kGather:
      out[0] = offset;
      return true;
    default:
      break;
  }
  size_t next = 0;
  int64_t rest = offset;
  for (size_t k = 0; k < window_base_.size(); ++k) {
    const int64_t start = rest / window_strides_[k];
    rest %= window_strides_[k];
    if (start + window_sizes_[k] > window_base_[k]) return false;
    if (next < start_dims_.size() && start_dims_[next] == static_cast<int>(k)) {
      out[next++] = start;
    }
  }
  return true;
}

}  // namespace torch_tpu::runtime
