#include "algorithms.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "gpu.h"
#include "optrush/error.h"
#include "timing.h"

namespace optrush::cublaslt_matmul {
namespace {
const CublasLt& library_of_process() {
  if (const CublasLt* lt = CublasLt::find()) return *lt;
  throw Error(ErrorCode::missing_requirement, "this LibTorch does not contain cuBLASLt's functions",
              "remove the rung, or use a CUDA build of LibTorch");
}

Owned new_handle(const CublasLt& lt, at::Device device) {
  const c10::DeviceGuard guard(device);
  void* handle = nullptr;
  if (const Status status = lt.create(&handle); status != kSuccess)
    throw Error(ErrorCode::internal, "cuBLASLt does not start: status " + std::to_string(status));
  return {handle, lt.destroy};
}
}  // namespace

Algorithms::Algorithms(at::Device device, Limits limits)
    : device_(device), limits_(limits), lt_(library_of_process()), handle_(new_handle(lt_, device)) {}

bool Algorithms::prefer(Entry& entry, const std::string& shape) {
  const auto found = choices_.find(shape);
  if (found == choices_.end()) return false;
  if (!entry.descriptors.accepts(handle_.get(), found->second, static_cast<size_t>(limits_.workspace)))
    return false;
  entry.algorithm = found->second;
  return entry.chosen = true;
}

Algorithms::Entry& Algorithms::entry(const Shape& shape) {
  if (const auto found = entries_.find(shape); found != entries_.end()) return found->second;
  Entry made{.descriptors = Descriptors(lt_, shape), .candidates = {}, .algorithm = {}};
  made.candidates =
      made.descriptors.candidates(handle_.get(), limits_.candidates, static_cast<size_t>(limits_.workspace));
  if (!made.candidates.empty() && !prefer(made, shape.text()))
    made.algorithm = made.candidates.front().algorithm;
  return entries_.emplace(shape, std::move(made)).first->second;
}

Status Algorithms::run(const Entry& entry, const Product& product, float alpha, float beta,
                       const Algorithm& algorithm) const {
  const Tensor workspace =
      at::empty({limits_.workspace}, at::TensorOptions(at::kByte).device(device_).requires_grad(false));
  return entry.descriptors.multiply(handle_.get(), product, alpha, beta, algorithm, workspace.data_ptr(),
                                    static_cast<size_t>(limits_.workspace), current_stream());
}

bool Algorithms::multiply(const Product& product, float alpha, float beta) {
  const c10::DeviceGuard guard(device_);
  const std::lock_guard lock(mutex_);
  const Entry& used = entry(product.shape);
  if (used.candidates.empty()) return false;
  if (const Status status = run(used, product, alpha, beta, used.algorithm); status != kSuccess)
    throw Error(ErrorCode::internal, "cuBLASLt did not start the product '" + product.shape.text() +
                                         "': status " + std::to_string(status));
  ++products_;
  return true;
}

void Algorithms::take(const Choices& choices) {
  const std::lock_guard lock(mutex_);
  for (const auto& [shape, algorithm] : choices) choices_[shape] = algorithm;
  for (auto& [shape, each] : entries_)
    if (!each.candidates.empty()) prefer(each, shape.text());
}

Choices Algorithms::choose() {
  const c10::DeviceGuard guard(device_);
  const std::lock_guard lock(mutex_);
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(device_.index());  // other streams may be at work
  Choices made;
  for (auto& [shape, each] : entries_) {
    if (each.chosen || each.candidates.empty()) continue;
    try {
      const Operands operands(shape, device_);
      const Product product = operands.product();
      const float beta = shape.adds == Adds::nothing ? 0 : 1;
      const size_t best = fastest(each.candidates.size(), [&](size_t candidate) {
        return run(each, product, 1, beta, each.candidates[candidate].algorithm) == kSuccess;
      });
      ++timed_;
      if (best < each.candidates.size()) made[shape.text()] = each.candidates[best].algorithm;
    } catch (const c10::OutOfMemoryError&) {
      continue;
    }
  }
  return made;
}
}  // namespace optrush::cublaslt_matmul
