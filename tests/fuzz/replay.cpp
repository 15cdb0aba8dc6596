// Runs a target without libFuzzer: every input of its corpus, then mutated inputs, the same on every machine.
// Some inputs must be accepted and some refused. `takes-all` is for readers that ignore unknown input. Many
// targets share a program, so they are compiled together and linked once.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/files.h"
#include "mutate.h"
#include "targets/target.h"

namespace {
namespace fs = std::filesystem;
using namespace optrush;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The words of a libFuzzer dictionary: name="text", with \" \\ and \xNN.
std::vector<std::string> words_of(const fs::path& dictionary) {
  std::vector<std::string> words;
  if (!fs::exists(dictionary)) return words;
  std::ifstream in(dictionary);
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (line.starts_with('#') || begin == end) continue;
    std::string word;
    for (size_t i = begin + 1; i < end; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x') {
        int code = 0;
        std::from_chars(line.data() + i + 2, line.data() + i + 4, code, 16);
        word += static_cast<char>(code);
        i += 3;
      } else {
        if (line[i] == '\\') ++i;
        word += line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

/// Targets write their files to memory if possible, because there are tens of thousands of files.
void keep_files_in_memory() {
  const fs::path memory = "/dev/shm";
  if (fs::is_directory(memory)) ::setenv("TMPDIR", memory.c_str(), 0);
}

/// A file with the input that ended the process, for the corpus. It stays open, because closing it after each
/// input would write each to the disk.
class LastInput {
 public:
  explicit LastInput(fs::path path)
      : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~LastInput() { fs::remove(path_); }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;

  void is(const std::string& input) const {
    const auto size = static_cast<ssize_t>(input.size());
    if (::pwrite(file_.get(), input.data(), input.size(), 0) != size || ::ftruncate(file_.get(), size) != 0)
      fuzz::fail("the input can't be written to " + path_.string());
  }

 private:
  fs::path path_;
  Descriptor file_;
};

void run(fuzz::Target target, const std::string& input, const LastInput& last) {
  last.is(input);
  target(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}
}  // namespace

int main(int argc, char** argv) {
  const bool takes_all = argc == 6 && argv[5] == std::string_view("takes-all");
  const auto found = argc > 1 ? fuzz::targets().find(argv[1]) : fuzz::targets().end();
  if ((argc != 5 && !takes_all) || found == fuzz::targets().end()) {
    std::cerr << "usage: " << argv[0] << " TARGET CORPUS DICTIONARY MUTATIONS [takes-all]\ntargets:";
    for (const auto& [name, target] : fuzz::targets()) std::cerr << ' ' << name;
    std::cerr << '\n';
    return 2;
  }
  const auto& [name, target] = *found;
  const size_t mutations = std::stoul(argv[4]);
  keep_files_in_memory();
  const LastInput last(fs::path(argv[0]).parent_path() / ("fuzz_" + name + ".last"));
  std::vector<std::string> corpus;
  for (const auto& file : files_in(argv[2])) corpus.push_back(read_file(file));
  for (const auto& input : corpus) run(target, input, last);
  const std::vector<std::string> words = words_of(argv[3]);
  for (uint64_t seed = 0; seed < mutations; ++seed)
    run(target, fuzz::Mutator(seed, words)(corpus[seed % corpus.size()]), last);
  const auto [accepted, refused] = fuzz::outcomes();
  std::cout << corpus.size() << " inputs of the corpus and " << mutations << " made of them: " << accepted
            << " accepted, " << refused << " refused\n";
  const size_t few = mutations / 200;
  if (accepted > few && (takes_all ? refused == 0 : refused > few)) return 0;
  std::cerr << "the inputs are too much alike: they show little\n";
  return 1;
}
