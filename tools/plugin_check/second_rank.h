#pragma once
#include <sys/types.h>

#include <string>

#include "base/temporary_folder.h"
#include "distributed/ranks.h"
#include "optrush/spec.h"

namespace optrush {
/// The other rank of a run on two ranks of this machine's CPU: a worker that trains the spec beside this
/// process. It ends with this object.
class SecondRank {
 public:
  explicit SecondRank(const RunSpec&);
  ~SecondRank();
  SecondRank(const SecondRank&) = delete;
  SecondRank& operator=(const SecondRank&) = delete;

  /// The place of this process.
  const Ranks& first() const { return first_; }
  /// Why the worker failed; "": it has not, or its result is not there.
  std::string failure() const;

 private:
  TemporaryFolder folder_;
  Ranks first_;
  pid_t worker_ = -1;
};
}  // namespace optrush
