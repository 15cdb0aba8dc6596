// Compiles GPU kernels by NVRTC, and keeps them on disk.
#include "optrush/gpu_kernel.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "base/files.h"
#include "base/text.h"
#include "machine/library_symbol.h"
#include "machine/torch_folder.h"
#include "optrush/advanced/machine.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
using Result = int;
using Program = void*;
constexpr Result kSuccess = 0, kCompilation = 6;

/// Candidates for the library: files beside LibTorch first, then names for the loader to look up.
std::vector<std::string> candidates() {
  constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  std::vector<std::string> files;
  auto folders = cuda_library_folders(torch_folder());
  folders.push_back(torch_folder() / "lib");
  for (const auto& folder : folders)
    for (const char* name : kNames)
      if (std::filesystem::exists(folder / name)) files.push_back(folder / name);
  files.insert(files.end(), kNames.begin(), kNames.end());
  return files;
}

void* open_library() {
  for (const auto& name : candidates())
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw Error(ErrorCode::missing_requirement,
              "NVRTC, which compiles GPU kernels, was not found: " + join(candidates()),
              "install a CUDA build of torch, which includes it, or the CUDA toolkit");
}

/// The source line of the first error of the form "file(12): error: ...", or "".
std::string line_of_error(const GpuSource& source, const std::string& log) {
  const auto error = log.find("error");
  const auto opening = log.rfind('(', error);
  if (error == std::string::npos || opening == std::string::npos) return {};
  int number = 0;
  std::from_chars(log.data() + opening + 1, log.data() + log.size(), number);
  const auto name_begin = log.rfind('\n', opening);
  const std::string name = log.substr(name_begin == std::string::npos ? 0 : name_begin + 1,
                                      opening - (name_begin == std::string::npos ? 0 : name_begin + 1));
  const auto header = source.headers.find(name);
  if (header == source.headers.end() && name != source.file) return {};  // the error is in a header of CUDA
  std::istringstream lines(header != source.headers.end() ? header->second : source.text);
  std::string line;
  for (int i = 0; i < number; ++i)
    if (!std::getline(lines, line)) return {};
  return "\n  line " + std::to_string(number) + " of " + name + ": " + line;
}

/// NVIDIA's run-time compiler. The library is opened when a kernel is first compiled. Its functions are
/// declared here, because the header is only in the CUDA toolkit; the API is stable.
struct Nvrtc {
  /// The compiler of this process. Throws an Error that lists the searched places if there is none.
  static const Nvrtc& open() {
    static const Nvrtc nvrtc;
    return nvrtc;
  }
  GpuCode compile(const GpuSource&, const std::string& kernel, const std::string& architecture) const;
  /// "13.0"
  std::string version() const {
    int major = 0, minor = 0;
    check(get_version(&major, &minor), "NVRTC failed to start");
    return std::to_string(major) + "." + std::to_string(minor);
  }
  void check(Result result, const std::string& what) const {
    if (result != kSuccess) throw Error(ErrorCode::internal, what + ": " + message(result));
  }
  LibrarySymbol find(const char* name) const {
    const LibrarySymbol found(library, name);
    if (found.address == nullptr)
      throw Error(ErrorCode::missing_requirement, std::string("this NVRTC lacks ") + name,
                  "install CUDA 12 or newer");
    return found;
  }

  void* library = open_library();  // never closed: kernels may be compiled until the process ends
  Result (*get_version)(int*, int*) = find("nvrtcVersion");
  Result (*create)(Program*, const char*, const char*, int, const char* const*,
                   const char* const*) = find("nvrtcCreateProgram");
  Result (*destroy)(Program*) = find("nvrtcDestroyProgram");
  Result (*compile_program)(Program, int, const char* const*) = find("nvrtcCompileProgram");
  Result (*add_name)(Program, const char*) = find("nvrtcAddNameExpression");
  Result (*lowered_name)(Program, const char*, const char**) = find("nvrtcGetLoweredName");
  Result (*log_size)(Program, size_t*) = find("nvrtcGetProgramLogSize");
  Result (*get_log)(Program, char*) = find("nvrtcGetProgramLog");
  Result (*cubin_size)(Program, size_t*) = find("nvrtcGetCUBINSize");
  Result (*cubin)(Program, char*) = find("nvrtcGetCUBIN");
  const char* (*message)(Result) = find("nvrtcGetErrorString");
};

GpuCode Nvrtc::compile(const GpuSource& source, const std::string& kernel,
                       const std::string& architecture) const {
  std::vector<const char*> header_texts, header_names;
  for (const auto& [name, text] : source.headers) {
    header_names.push_back(name.c_str());
    header_texts.push_back(text.c_str());
  }
  Program made = nullptr;
  check(create(&made, source.text.c_str(), source.file.c_str(), static_cast<int>(header_names.size()),
               header_texts.data(), header_names.data()),
        "NVRTC rejected the program " + source.file);
  const auto end = [this](void* program) { destroy(&program); };
  const std::unique_ptr<void, decltype(end)> program(made, end);

  check(add_name(program.get(), kernel.c_str()), "NVRTC rejected the kernel '" + kernel + "'");
  std::vector<std::string> options = {"--gpu-architecture=" + architecture, "--std=c++17"};
  for (const auto& folder : cuda_include_folders(torch_folder())) options.push_back("-I" + folder.string());
  options.insert(options.end(), source.options.begin(), source.options.end());
  std::vector<const char*> given;
  for (const auto& option : options) given.push_back(option.c_str());

  const Result result = compile_program(program.get(), static_cast<int>(given.size()), given.data());
  if (result != kSuccess) {
    std::string log;
    if (size_t size = 0; log_size(program.get(), &size) == kSuccess && size > 1) {
      log.resize(size);
      get_log(program.get(), log.data());
      log.resize(size - 1);  // without the final zero
    }
    const std::string what = result == kCompilation ? ":\n" + log + line_of_error(source, log)
                                                    : std::string(": ") + message(result);
    throw Error(
        ErrorCode::invalid_plugin,
        "NVRTC " + version() + " cannot compile the kernel '" + kernel + "' for " + architecture + what, {},
        source.file);
  }
  GpuCode code;
  const char* symbol = nullptr;
  check(lowered_name(program.get(), kernel.c_str(), &symbol), source.file + " has no '" + kernel + "'");
  code.symbol = symbol;
  size_t size = 0;
  check(cubin_size(program.get(), &size), "NVRTC returned no code");
  code.image.resize(size);
  check(cubin(program.get(), code.image.data()), "NVRTC returned no code");
  return code;
}

constexpr size_t kHash = 64;  // characters of a SHA-256

/// A kernel that was compiled before; none if there is no file, or if its content has changed. Format: the
/// hash of the rest, the symbol, a line feed, the image.
std::optional<GpuCode> kept_code(const fs::path& file) {
  std::error_code unreadable;
  if (!fs::exists(file, unreadable)) return std::nullopt;
  std::string content;
  try {
    content = read_file(file);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (content.size() < kHash || sha256(std::string_view(content).substr(kHash)) != content.substr(0, kHash))
    return std::nullopt;
  const auto end = content.find('\n', kHash);
  return GpuCode{.image = content.substr(end + 1), .symbol = content.substr(kHash, end - kHash)};
}

/// Stores the code. If the folder can't be written, the kernel is compiled again next time.
void keep_code(const fs::path& file, const GpuCode& code) {
  const std::string content = code.symbol + "\n" + code.image;
  // Several ranks of a machine may compile the same kernel at the same time.
  const fs::path mine = file.string() + "." + std::to_string(getpid());
  try {
    write_file(mine, {sha256(content), content});
    fs::rename(mine, file);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove(mine, ignored);
  }
}
}  // namespace

GpuCode compile_gpu_kernel(const GpuSource& source, const std::string& kernel,
                           const std::string& architecture) {
  const Nvrtc& nvrtc = Nvrtc::open();
  const Json depends = {source.file, source.text,  source.headers, source.options,
                        kernel,      architecture, nvrtc.version()};
  const fs::path file = cache_folder("kernels") / (sha256(depends.dump()) + ".cubin");
  if (auto found = kept_code(file)) return *std::move(found);
  GpuCode code = nvrtc.compile(source, kernel, architecture);
  keep_code(file, code);
  return code;
}
}  // namespace optrush
