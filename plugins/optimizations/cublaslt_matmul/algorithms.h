#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "descriptors.h"

namespace optrush::cublaslt_matmul {
/// The chosen algorithms by Shape::text().
using Choices = std::map<std::string, Algorithm>;

struct Limits {
  int candidates = 8;     ///< algorithms that are timed for a shape
  int64_t workspace = 0;  ///< bytes of a product's workspace
};

/// Multiplies by the algorithms that were chosen, and chooses them. A shape without a choice takes the first
/// one of cuBLASLt's heuristic, which is the same on each rank with this card and library.
class Algorithms {
 public:
  /// Throws an Error without cuBLASLt.
  Algorithms(at::Device, Limits);

  /// Computes the product on the current stream, from any thread; with a workspace of LibTorch's allocator,
  /// which is freed at once, as LibTorch does. False if cuBLASLt has no algorithm for the shape.
  bool multiply(const Product&, float alpha, float beta);

  /// Takes these for shapes that have run or will run. A choice that the library does not accept is left out.
  void take(const Choices&);
  /// Times the candidates of each shape that has run without a choice. Returns the fastest candidates. The
  /// timed products have tensors of their own. A shape that does not fit into the memory keeps its first
  /// candidate. Waits for the device. No product may run meanwhile.
  Choices choose();

  int64_t products() const { return products_; }  ///< multiplied so far
  int64_t timed() const { return timed_; }        ///< shapes whose candidates were timed

 private:
  struct Entry {
    Descriptors descriptors;
    std::vector<Candidate> candidates;  ///< empty: cuBLASLt has none
    Algorithm algorithm;
    bool chosen = false;
  };
  Entry& entry(const Shape&);
  bool prefer(Entry&, const std::string& shape);
  Status run(const Entry&, const Product&, float alpha, float beta, const Algorithm&) const;

  at::Device device_;
  Limits limits_;
  const CublasLt& lt_;
  Owned handle_;
  std::mutex mutex_;  ///< of the members below: forwards and backwards run on different threads
  std::map<Shape, Entry> entries_;
  Choices choices_;
  std::atomic<int64_t> products_ = 0;
  int64_t timed_ = 0;
};
}  // namespace optrush::cublaslt_matmul
