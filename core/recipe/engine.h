#pragma once

namespace optrush {
/// Replaces the autograd engine of the process by one that supports SavedTensorScope. Must be called before
/// the first backward, because an engine that has run keeps the queues of its devices.
void use_saved_tensor_engine();
}  // namespace optrush
