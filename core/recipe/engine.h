#pragma once

namespace optrush {
/// Makes the autograd engine of the process the one that knows scopes of saved tensors. Before the first
/// backward: an engine that has run keeps the queues of its devices to itself.
void use_saved_tensor_engine();
}  // namespace optrush
