#include "simulated/ledger.h"

#include <algorithm>
#include <bit>
#include <regex>
#include <string>

#include "machine/environment.h"
#include "optrush/torch_versions/cublas_workspace.h"

namespace optrush::simulated {
namespace {
constexpr int64_t kKibi = 1024;

/// The workspace of cuBLAS and cuBLASLt in LibTorch (aten/src/ATen/cuda/CublasHandlePool): from
/// CUBLAS_WORKSPACE_CONFIG=:SIZE_KIB:COUNT..., otherwise :4096:2:16:8, and 32 MiB from Hopper on.
int64_t cublas_workspace(const std::string& architecture) {
  const std::string config = environment_variable("CUBLAS_WORKSPACE_CONFIG");
  static const std::regex kPart(":([0-9]{1,9}):([0-9]{1,9})");
  int64_t bytes = 0;
  for (std::sregex_iterator part(config.begin(), config.end(), kPart), end; part != end; ++part)
    bytes += kKibi * std::stoll((*part)[1]) * std::stoll((*part)[2]);
  if (std::sregex_iterator(config.begin(), config.end(), kPart) != std::sregex_iterator()) return bytes;
  const int number = std::atoi(architecture.substr(std::min<size_t>(3, architecture.size())).c_str());
  return number >= 90 ? 32 * kKibi * kKibi : kKibi * (2 * 4096 + 8 * 16);
}
}  // namespace

Ledger::Ledger(const Form& form) {
  if (form.type != at::kCUDA) return;
  blocks_.emplace();
  workspace_ = cublas_workspace(form.architecture);
}

int64_t Ledger::take(int64_t bytes, int64_t stream) {
  if (bytes == 0) return 0;
  const std::lock_guard lock(mutex_);
  now_.tensors += bytes;
  int64_t address = 0;
  if (blocks_) {
    address = blocks_->allocate(bytes, stream);
    now_.rounding += blocks_->size_of(address) - bytes;
  }
  changed();
  return address;
}

void Ledger::give_back(int64_t bytes, int64_t address) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  now_.tensors -= bytes;
  if (!blocks_) return;
  now_.rounding -= blocks_->size_of(address) - bytes;
  blocks_->release(address);
}

void Ledger::multiply(int64_t stream) {
  if (workspace_ == 0) return;
  const std::lock_guard lock(mutex_);
  if (kKeepsCublasWorkspaces && !handles_.emplace(std::this_thread::get_id(), stream).second) return;
  const int64_t address = blocks_->allocate(workspace_, stream), bytes = blocks_->size_of(address);
  now_.workspaces += bytes;
  changed();
  if (kKeepsCublasWorkspaces) return;
  now_.workspaces -= bytes;
  blocks_->release(address);
}

void Ledger::pin(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!blocks_) {
    now_.tensors += bytes;
    changed();
    return;
  }
  pinned_ += static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  peak_pinned_ = std::max(peak_pinned_, pinned_);
}

void Ledger::unpin(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!blocks_)
    now_.tensors -= bytes;
  else
    pinned_ -= static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
}

void Ledger::changed() {
  if (now_.total() > peak_.total()) peak_ = now_;
}

Ledger::Use Ledger::use() const {
  const std::lock_guard lock(mutex_);
  return {now_, peak_, blocks_ ? blocks_->reserved() : 0, peak_pinned_};
}

void Ledger::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = now_;
  peak_pinned_ = pinned_;
}
}  // namespace optrush::simulated
