// journal.jsonl of a report. A kill may cut it anywhere, and a later run continues it.
#include "results/journal.h"

#include "target.h"

FUZZ_TARGET(journal) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("journal.jsonl", fuzz::text_of(data, size));
  fuzz::feed([&] {
    Journal journal(files.path());
    if (size % 8 != 0) return;  // writing is ten times as slow as reading
    journal.append(
        {.event = JournalEntry::Event::started, .run = "run", .spec_sha256 = "spec", .sha256 = "sum"});
    journal.append({.event = JournalEntry::Event::finished, .run = "run", .sha256 = "result"});
    const Journal again(files.path());
    fuzz::hold(again.of("run").spec == "spec" && !again.came_to_end(), "what is appended is read");
    journal.append({.event = JournalEntry::Event::skipped, .run = "run"});
    fuzz::hold(Journal(files.path()).of("run").spec.empty(), "a run that was skipped is not known");
  });
  return 0;
}
