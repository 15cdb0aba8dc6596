#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "optrush/tensor.h"

namespace optrush {
/// A plan forecasts a step by running it on tensors that have sizes and no values
/// (docs/internals/forecasts.md): calls of ATen need no care. A kernel of one's own takes part when it makes
/// its outputs as ever, notes itself, and then runs only where this is false. Its slot says so by
/// Traits::predictable.
bool is_forecast(at::Device);
bool is_forecast(const Tensor&);

/// The kind of device whose form of an operator is wanted (which kernel, how large a chunk): a device's own;
/// in a forecast that of the run that is forecast, kCPU or kCUDA.
at::DeviceType form_of(at::Device);
at::DeviceType form_of(const Tensor&);

/// The host sees what a step calls through LibTorch's dispatcher. What goes past it (compiled code, kernels
/// of one's own) says here what it does, on whatever device it runs, and in a forecast
/// too: there it runs nothing.

/// FLOPs of matmuls, multiply and add counted as two; `hfu` adds them to what it sees itself.
void note_flops(double flops);

/// `launches` kernels that read and write `bytes` together. What this thread calls of ATen while it lives is
/// part of these kernels, as on a CPU, where ATen may help a kernel that does all by itself on a GPU.
class NotedKernel {
 public:
  NotedKernel(const std::string& name, double bytes, int64_t launches = 1);
  ~NotedKernel();
  NotedKernel(const NotedKernel&) = delete;
  NotedKernel& operator=(const NotedKernel&) = delete;

 private:
  struct Note;
  std::unique_ptr<Note> note_;  ///< none where nobody counts
};

/// Bytes of these tensors' elements together; undefined ones have none, an expanded axis counts once.
double bytes_of(std::initializer_list<Tensor>);
}  // namespace optrush
