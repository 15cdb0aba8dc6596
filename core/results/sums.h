#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "results/journal.h"

namespace optrush {
/// Hashes of a report's files from its journal. They reveal files that were damaged or edited later. Files
/// without a hash in the journal are not checked.
class Sums {
 public:
  explicit Sums(const std::filesystem::path& folder);
  Sums(const std::filesystem::path& folder, const std::vector<JournalEntry>&);

  /// Reads a JSON file of the report. Throws an Error if its bytes have changed.
  Json read(const std::filesystem::path& file) const;
  /// The same, as text.
  std::string text(const std::filesystem::path& file) const;
  /// Whether the bytes of a file are unchanged, as far as the journal knows it.
  bool agree(const std::filesystem::path& file) const;

 private:
  bool agree(const std::filesystem::path& file, const std::string& content) const;
  void take(const JournalEntry&);

  std::filesystem::path folder_;
  std::map<std::string, std::set<std::string>> known_;  ///< all valid hashes, by path in the folder
};
}  // namespace optrush
