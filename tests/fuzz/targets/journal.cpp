// journal.jsonl of a report, which any kill may cut and a later run goes on with.
#include "launch/journal.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("journal.jsonl", fuzz::text_of(data, size));
  fuzz::feed([&] {
    Journal journal(files.path());
    journal.started("run", "sha");
    fuzz::hold(Journal(files.path()).spec_of("run") == "sha", "a line that is appended is read");
    journal.skipped("run", "reason");
    fuzz::hold(Journal(files.path()).spec_of("run").empty(), "a run that was skipped is not known");
  });
  return 0;
}
