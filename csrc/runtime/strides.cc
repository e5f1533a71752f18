#include "runtime/strides.h"

#include <algorithm>
#include <vector>

namespace torch_tpu::runtime {
namespace {

// Innermost first.
std::vector<int> channels_last_order(int rank) {
  std::vector<int> order{1};
  for (int d = rank; --d > 1;) order.push_back(d);
  order.push_back(0);
  return order;
}

}  // namespace

Dims column_major_strides(const Dims& dims) {
  if (dims.size() < 2) return {};
  Dims strides(dims.size(), 1);
  const size_t rows = dims.size() - 2, columns = dims.size() - 1;
  strides[columns] = std::max<int64_t>(dims[rows], 1);
  int64_t next = strides[columns] * std::max<int64_t>(dims[columns], 1);
  for (size_t i = rows; i-- > 0;) {
    strides[i] = next;
    next *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

bool is_channels_last(const TensorRef& t) {
  if (t.rank < 4 || t.rank > 5 || t.strides[1] == 0) return false;
  int64_t least = 0;
  for (const int d : channels_last_order(t.rank)) {
    if (t.sizes[d] == 0 || t.strides[d] < least || (d == 0 && least == t.strides[1])) return false;
    least = t.strides[d] * std::max<int64_t>(t.sizes[d], 1);
  }
  return true;
}

Dims channels_last_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  int64_t next = 1;
  for (const int d : channels_last_order(static_cast<int>(dims.size()))) {
    strides[static_cast<size_t>(d)] = next;
    next *= std::max<int64_t>(dims[static_cast<size_t>(d)], 1);
  }
  return strides;
}

Dims stride_order(const Dims& sizes, const Dims& strides) {
  Dims order;
  for (size_t i = 0; i < sizes.size(); ++i) order.push_back(static_cast<int64_t>(i));
  if (strides.size() == sizes.size())
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)];
    });
  return order;
}

}  // namespace torch_tpu::runtime
