#include "gathers.h"

#include <algorithm>

namespace optrush::fsdp {
void Gathers::need(FlatGroup& group) {
  if (group.outdated()) drop(group);
  if (!group.present()) {
    while (in_flight_.size() >= limit_) wait_for(*in_flight_.front());
    group.start_gather();
    in_flight_.push_back(&group);
  }
  wait_for(group);
}

bool Gathers::ahead(FlatGroup& group) {
  if (group.present()) return true;
  if (in_flight_.size() >= limit_) return false;
  group.start_gather();
  in_flight_.push_back(&group);
  return true;
}

void Gathers::drop(FlatGroup& group) {
  wait_for(group);
  group.free();
}

void Gathers::wait_for(FlatGroup& group) {
  group.wait();
  std::erase(in_flight_, &group);
}
}  // namespace optrush::fsdp
