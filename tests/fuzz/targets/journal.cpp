// journal.jsonl of a report. A kill may cut it anywhere, and a later run continues it.
#include "launch/journal.h"

#include "results/run_result.h"
#include "target.h"

FUZZ_TARGET(journal) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("journal.jsonl", fuzz::text_of(data, size));
  fuzz::feed([&] {
    Journal journal(files.path());
    if (size % 8 != 0) return;  // writing is ten times as slow as reading
    journal.started("run", "spec", "sum", "inputs");
    journal.finished("run", "spec", RunResult(), "result");
    const Journal again(files.path());
    fuzz::hold(again.of("run").spec == "spec" && again.of("run").result == "result",
               "what is appended is read");
    journal.skipped("run", "reason");
    fuzz::hold(Journal(files.path()).of("run").spec.empty(), "a run that was skipped is not known");
  });
  return 0;
}
