#include "cache.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

#include "cuda_tools_py.h"
#include "file_lock/file_lock.h"
#include "inductor_py.h"
#include "optrush/advanced/machine.h"
#include "optrush/error.h"
#include "optrush/gpu_kernel.h"
#include "wrappers_py.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush::compile {
namespace fs = std::filesystem;
namespace {
/// Names as in Python's torch.
std::string dtype_name(at::ScalarType type) {
  static const std::map<at::ScalarType, std::string> names = {
      {at::kFloat, "float32"}, {at::kDouble, "float64"}, {at::kBFloat16, "bfloat16"},
      {at::kHalf, "float16"},  {at::kLong, "int64"},     {at::kInt, "int32"},
      {at::kByte, "uint8"},    {at::kChar, "int8"},      {at::kBool, "bool"}};
  const auto found = names.find(type);
  if (found == names.end())
    throw Error(std::string("cannot compile for tensors of type ") + c10::toString(type));
  return found->second;
}

Json describe(const Tensors& inputs) {
  Json described = Json::array();
  for (const auto& tensor : inputs)
    described.push_back({{"sizes", tensor.sizes().vec()},
                         {"strides", tensor.strides().vec()},
                         {"dtype", dtype_name(tensor.scalar_type())},
                         {"device", tensor.device().str()},
                         {"requires_grad", tensor.requires_grad()}});
  return described;
}

Json to_json(const Request& request) {
  return {{"mode", request.mode},
          {"activations", request.activations},
          {"attention", request.attention},
          {"threads", request.threads},
          {"inputs", describe(request.inputs)}};
}

/// The model of a GPU, and the version of CUDA that its driver has.
std::string card([[maybe_unused]] const at::Device& device) {
#ifdef OPTRUSH_HAS_CUDA
  cudaDeviceProp properties{};
  int driver = 0;
  if (cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess &&
      cudaDriverGetVersion(&driver) == cudaSuccess)
    return std::string(" ") + properties.name + " " + std::to_string(driver);
#endif
  return "";
}

/// Code for one processor may not run on another. Choices that were timed on one card may be slow on another
/// card of the same architecture, or with another driver.
std::string processor(const at::Device& device) {
  if (device.is_cuda()) return gpu_architecture() + card(device);
  std::ifstream in("/proc/cpuinfo");
  std::string line, found;
  while (std::getline(in, line) && !line.empty())
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features"))
      found += line;
  return found;
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush())
    throw Error(ErrorCode::file_access, "cannot write " + file.string(),
                "check the disk space, or set the option 'cache' to another folder");
}

std::string last_lines(const fs::path& log) {
  std::ifstream in(log, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  return text.size() > 1500 ? "..." + text.substr(text.size() - 1500) : text;
}
}  // namespace

std::vector<std::string> enabled_attention_kernels() {
  auto& context = at::globalContext();
  std::vector<std::string> names;
  for (const at::SDPBackend kernel : context.sDPPriorityOrder()) {
    if (kernel == at::SDPBackend::math && context.userEnabledMathSDP()) names.emplace_back("math");
    if (kernel == at::SDPBackend::flash_attention && context.userEnabledFlashSDP())
      names.emplace_back("flash");
    if (kernel == at::SDPBackend::efficient_attention && context.userEnabledMemEfficientSDP())
      names.emplace_back("efficient");
    if (kernel == at::SDPBackend::cudnn_attention && context.userEnabledCuDNNSDP())
      names.emplace_back("cudnn");
  }
  return names;
}

Cache::Cache(const std::string& root) : root_(root.empty() ? cache_folder("inductor") : fs::path(root)) {}

std::string Cache::key_of(const UnitGraph& graph, const Request& request) {
  // The GPUs of one machine read one copy, because the loader sets the device of the code.
  static const std::regex number("cuda:[0-9]+");
  const std::string asked = std::regex_replace(graph.text() + to_json(request).dump(), number, "cuda");
  return c10::sha1(asked + kInductorPy + kCudaToolsPy + kWrappersPy +
                   processor(request.inputs.front().device()) + at::show_config())
      .str();
}

bool Cache::holds(const std::string& key) const { return fs::exists(folder_of(key) / "meta.json"); }

fs::path Cache::choice_file(const std::string& key, const RunSpec& spec) const {
  std::string stack;
  for (const auto& [name, options] : spec.plugins) stack += name + options.dump() + "\n";
  return root_ / "choices" / (key + "-" + c10::sha1(stack).str() + ".json");
}

void Cache::compile(std::vector<Job> jobs) const {
  fs::create_directories(root_);
  // All processes lock keys in the same order, which prevents a deadlock.
  std::ranges::sort(jobs, {}, &Job::key);
  const auto alike = std::ranges::unique(jobs, {}, &Job::key);
  jobs.erase(alike.begin(), alike.end());
  std::deque<FileLock> locks;  // held while a key is compiled
  std::vector<std::string> words;
  std::vector<fs::path> works;
  for (const auto& [key, graph, request] : jobs) {
    locks.emplace_back(root_ / (key + ".lock"),
                       "make the cache folder writable, or set the option 'cache' to another folder");
    if (holds(key)) continue;
    const fs::path& work = works.emplace_back(root_ / (key + ".part"));
    fs::remove_all(work);
    fs::create_directories(work);
    Json asked = to_json(*request);
    asked["pairs"] = graph->save(work);
    write(work / "request.json", asked.dump(1));
    write(work / "inductor.py", kInductorPy);
    write(work / "cuda_tools.py", kCudaToolsPy);
    write(work / "wrappers.py", kWrappersPy);
    if (words.empty()) words.push_back((work / "inductor.py").string());
    words.push_back(work.string());
  }
  if (works.empty()) return;
  const fs::path& first = works.front();
  const fs::path log = first / "log.txt";
  // The compiler creates separate inputs there.
  if (const auto device = jobs.front().request->inputs.front().device(); device.is_cuda())
    at::getDeviceAllocator(device.type())->emptyCache();
  const int code = run_python(words, log);
  if (const fs::path missing = first / "missing.json"; fs::exists(missing)) {
    std::ifstream in(missing);
    const Json told = Json::parse(in);
    throw Skip("cannot compile on this machine: " + told.at("what").get<std::string>(), told.at("cure"));
  }
  if (code != 0)
    throw Error(ErrorCode::internal,
                "Inductor could not compile (exit code " + std::to_string(code) + "):\n" + last_lines(log),
                "remove the plugin 'compile' from the stack; its input and output are in " + first.string());
  for (const fs::path& work : works) fs::rename(work, folder_of(work.stem().string()));
}
}  // namespace optrush::compile
