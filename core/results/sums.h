#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "optrush/json.h"
#include "results/journal.h"

namespace optrush {
/// Checksums of a report's files when they were written, from its journal. A disk or a hand may have changed
/// a digit since, which no reader would see. Files that the journal does not know are not checked.
class Sums {
 public:
  explicit Sums(const std::filesystem::path& folder);

  /// Reads a JSON file of the report; an Error where its bytes are others.
  Json read(const std::filesystem::path& file) const;
  /// The same, as text.
  std::string text(const std::filesystem::path& file) const;
  /// The bytes of a file of the report are as they were written, as far as the journal knows.
  bool agree(const std::filesystem::path& file) const;

 private:
  bool agree(const std::filesystem::path& file, const std::string& content) const;
  void take(const JournalEntry&);

  std::filesystem::path folder_;
  std::map<std::string, std::set<std::string>>
      known_;  ///< by path in the folder: each sum that was ever right
};
}  // namespace optrush
