#include "gpu/kernel_cache.h"

#include <unistd.h>

#include "base/files.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr std::size_t kHash = 64;  // characters of a SHA-256
}  // namespace

std::string KernelCache::key_of(const GpuSource& source, const std::string& kernel,
                                const std::string& architecture, const std::string& compiler) {
  return sha256(
      Json{source.file, source.text, source.headers, source.options, kernel, architecture, compiler}.dump());
}

// Format of a file: the hash of the rest, the symbol, a line feed, the image.
std::optional<GpuCode> KernelCache::find(const std::string& key) const {
  std::error_code unreadable;
  if (!fs::exists(file_of(key), unreadable)) return std::nullopt;
  std::string content;
  try {
    content = read_file(file_of(key));
  } catch (const Error&) {
    return std::nullopt;
  }
  if (content.size() < kHash || sha256(std::string_view(content).substr(kHash)) != content.substr(0, kHash))
    return std::nullopt;
  const auto end = content.find('\n', kHash);
  return GpuCode{.image = content.substr(end + 1), .symbol = content.substr(kHash, end - kHash)};
}

void KernelCache::keep(const std::string& key, const GpuCode& code) const {
  const std::string content = code.symbol + "\n" + code.image;
  // Several ranks of a machine may compile the same kernel at the same time.
  const fs::path mine = file_of(key).string() + "." + std::to_string(getpid());
  try {
    write_file(mine, {sha256(content), content});
    fs::rename(mine, file_of(key));
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove(mine, ignored);
  }
}
}  // namespace optrush
