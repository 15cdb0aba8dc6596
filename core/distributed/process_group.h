#pragma once
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace optrush {
/// A group over Gloo, for CPU tensors. Every collective has a timeout, so nothing hangs on a lost rank.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(c10::intrusive_ptr<c10d::Store>, int rank,
                                                          int size);
/// The store at MASTER_ADDR:MASTER_PORT (torchrun's environment); rank 0 serves it unless the launcher does.
c10::intrusive_ptr<c10d::Store> rendezvous(int rank, int size);
}  // namespace optrush
