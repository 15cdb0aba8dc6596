#pragma once
#include <filesystem>

#include "algorithms.h"
#include "optrush/json.h"

namespace optrush::cublaslt_matmul {
/// What the times of a file depend on. Another card, library or limit has another file.
struct KeptFor {
  std::string card;          ///< "NVIDIA H200"
  std::string architecture;  ///< "sm_90"
  size_t version = 0;        ///< of cuBLASLt, because only it can restore what it has stored
  Limits limits;
};

/// The file of choices in the project's cache. It stores the opaque bytes of an algorithm and not its
/// attributes, because <cublasLt.h> promises that the same version of the library restores them, and
/// cublasLtMatmulAlgoCheck refuses other ones.
class KeptChoices {
 public:
  KeptChoices(const std::filesystem::path& folder, const KeptFor&);

  const std::filesystem::path& file() const { return file_; }
  /// Empty if there is no file. A damaged file is as an empty one; `damage` then gets the reason.
  Choices read(std::string* damage = nullptr) const;
  /// Adds choices to the file, under a lock, so that several processes may call it. A shape that the file has
  /// keeps its choice: all processes then take the same. Throws an Error if the folder cannot be written.
  void add(const Choices&) const;

 private:
  Json key_;
  std::filesystem::path file_;
};
}  // namespace optrush::cublaslt_matmul
