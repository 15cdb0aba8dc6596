#pragma once
#include <cstdint>

namespace optrush {
/// Counts what tensors of the meta device would take: they have sizes and no memory, so a step that runs on
/// them tells its bytes without using any. Counts from construction on, one at a time.
class MetaMemory {
 public:
  MetaMemory();
  int64_t peak() const;

 private:
  int64_t before_ = 0;
};
}  // namespace optrush
