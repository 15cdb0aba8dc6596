#include "flat_storage.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

namespace optrush::fsdp {
namespace {
c10::StorageImpl& storage_of(const Tensor& tensor) { return *tensor.storage().unsafeGetStorageImpl(); }

void set_memory(const Tensor& tensor, size_t bytes) {
  const c10::OptionalDeviceGuard guard(tensor.is_cpu() ? std::nullopt : std::optional(tensor.device()));
  c10::StorageImpl& storage = storage_of(tensor);
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}
}  // namespace

void free_memory(const Tensor& tensor) { set_memory(tensor, 0); }

FlatStorage::FlatStorage(int64_t size, const at::TensorOptions& options, const std::string& unit)
    : flat_(at::empty({0}, options)), size_(size) {
  storage_of(flat_).get_extra_meta().custom_data_ptr_error_msg_ = unit;
  flat_.unsafeGetTensorImpl()->set_sizes_contiguous({size});
}

Tensor FlatStorage::view(int64_t at, const std::vector<int64_t>& shape) const {
  int64_t numel = 1;
  for (const int64_t extent : shape) numel *= extent;
  c10::StorageImpl& storage = storage_of(flat_);
  const size_t present = storage.nbytes();
  // Making a view checks the size of the memory, but does not read it.
  storage.set_nbytes(flat_.nbytes());
  Tensor made = flat_.narrow(0, at, numel).view(shape).detach();
  storage.set_nbytes(present);
  return made;
}

void FlatStorage::allocate() {
  if (!allocated()) set_memory(flat_, flat_.nbytes());
}

void FlatStorage::free() {
  if (allocated()) free_memory(flat_);
}

bool FlatStorage::allocated() const { return storage_of(flat_).nbytes() != 0; }

Tensor FlatStorage::whole() const {
  return at::empty({0}, flat_.options()).set_(flat_.storage(), 0, {size_}, {1});
}

void FlatStorage::renew() const { flat_.unsafeGetTensorImpl()->bump_version(); }
}  // namespace optrush::fsdp
