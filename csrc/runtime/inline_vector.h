// A vector of trivial elements that stays on the stack while it is small: the call path allocates nothing for
// ordinary ops.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

namespace torch_tpu::runtime {

template <typename T, size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const InlineVector& other) { append(other.data(), other.size()); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) {
      clear();
      append(other.data(), other.size());
    }
    return *this;
  }
  ~InlineVector() {
    if (data_ != local()) std::free(data_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  operator std::span<const T>() const { return {data_, size_}; }

  void clear() { size_ = 0; }
  void push_back(const T& value) {
    if (size_ == capacity_) grow(size_ + 1);
    new (data_ + size_++) T(value);
  }
  void append(const T* values, size_t n) {
    if (size_ + n > capacity_) grow(size_ + n);
    if (n) std::memcpy(static_cast<void*>(data_ + size_), values, n * sizeof(T));
    size_ += n;
  }
  void resize(size_t n) {
    if (n > capacity_) grow(n);
    for (size_t i = size_; i < n; ++i) new (data_ + i) T();
    size_ = n;
  }

 private:
  T* local() { return reinterpret_cast<T*>(storage_); }
  void grow(size_t needed) {
    size_t capacity = capacity_ * 2 > needed ? capacity_ * 2 : needed;
    T* fresh = static_cast<T*>(std::malloc(capacity * sizeof(T)));
    if (!fresh) throw std::bad_alloc();
    std::memcpy(static_cast<void*>(fresh), data_, size_ * sizeof(T));
    if (data_ != local()) std::free(data_);
    data_ = fresh;
    capacity_ = capacity;
  }

  alignas(T) unsigned char storage_[N * sizeof(T)];
  T* data_ = reinterpret_cast<T*>(storage_);
  size_t size_ = 0;
  size_t capacity_ = N;
};

}  // namespace torch_tpu::runtime
