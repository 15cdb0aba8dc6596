#include "optrush/forecast.h"

#include <array>
#include <string>

#include "measure/operator_costs.h"

namespace optrush {
struct NotedKernel::Note {
  std::string name;  // an observer keeps only a pointer to the name
  at::RecordFunction function{at::RecordScope::FUNCTION};
};

NotedKernel::NotedKernel(const std::string& name, double bytes, int64_t launches) {
  if (!at::hasCallbacks()) return;
  note_ = std::make_unique<Note>();
  note_->name = std::string(kNotedKernel) + name;
  const std::array<c10::IValue, 2> inputs = {c10::IValue(bytes), c10::IValue(launches)};
  if (note_->function.isActive())
    note_->function.before(std::string_view(note_->name),
                           c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}
NotedKernel::~NotedKernel() = default;

void note_flops(double flops) {
  const std::array<c10::IValue, 1> inputs = {c10::IValue(flops)};
  RECORD_FUNCTION(kNotedFlops.data(), c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    auto elements = static_cast<double>(tensor.element_size());
    for (int64_t axis = 0; axis < tensor.dim(); ++axis)
      if (tensor.stride(axis) != 0) elements *= static_cast<double>(tensor.size(axis));
    bytes += tensor.numel() == 0 ? 0 : elements;
  }
  return bytes;
}
}  // namespace optrush
