#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "optrush/tensor.h"

namespace optrush {
/// Whether the present run is a forecast: a plan runs one step on tensors with sizes but without values
/// (docs/internals/forecasts.md). Calls of ATen need no special treatment. A custom kernel takes part as
/// follows: it creates its outputs as usual, notes itself (NotedKernel), and launches only if this returns
/// false. Its slot declares this with Traits::predictable.
bool is_forecast(at::Device);
bool is_forecast(const Tensor&);

/// The device type that decides the implementation of an operator (kernel, chunk size): the type of the
/// device, or in a forecast the type of the predicted run's device, kCPU or kCUDA.
at::DeviceType form_of(at::Device);
at::DeviceType form_of(const Tensor&);

/// The host counts the calls that pass LibTorch's dispatcher. Other work (compiled code, custom kernels) must
/// be noted with the functions below, on every device, and also in a forecast, in which nothing is launched.

/// FLOPs of matmuls, with multiply and add counted as two. `hfu` includes them.
void note_flops(double flops);

/// `launches` kernels that read and write `bytes` in total. ATen calls of this thread during its lifetime
/// count as part of these kernels: on a CPU, a custom kernel may use ATen for a part of its work.
class NotedKernel {
 public:
  NotedKernel(const std::string& name, double bytes, int64_t launches = 1);
  ~NotedKernel();
  NotedKernel(const NotedKernel&) = delete;
  NotedKernel& operator=(const NotedKernel&) = delete;

 private:
  struct Note;
  std::unique_ptr<Note> note_;  ///< null if nothing is counted
};

/// Total bytes of the elements of these tensors. Undefined tensors have none; an expanded axis counts once.
double bytes_of(std::initializer_list<Tensor>);
}  // namespace optrush
