#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "distributed/groups.h"
#include "optrush/mesh.h"
#include "rank_pool.h"

namespace optrush::testing {
/// The device of tests that run on a CPU and on a GPU: OPTRUSH_TEST_DEVICE, or "cpu". With "cuda", the main
/// function of a program with a pool lets ranks share a GPU, and runs the cases that compare values with one
/// process.
std::string test_device();

/// Opens the device of a rank, and notes its GPU in `ranks`.
at::Device open_test_device(Ranks& ranks, const std::string& name);

/// Ranks with a group of all of them.
struct ConnectedRanks {
  at::Device device;
  c10::intrusive_ptr<c10d::Store> store;
  Groups groups;
  Group* world;
  explicit ConnectedRanks(Ranks, const std::string& identity = "test", const std::string& device = "cpu");

 private:
  void wait_for_all(int64_t size) const;
};

/// The values of a tensor of any type and device.
std::vector<double> numbers(const Tensor&);

/// Runs every collective once on `ranks` ranks with tensors of a type ("fp32", "bf16", "fp64", "bytes"), and
/// expects the right values.
void expect_every_collective(RankPool&, int64_t ranks, const std::string& type, const std::string& device);
}  // namespace optrush::testing
