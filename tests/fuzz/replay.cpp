// Runs a target without libFuzzer: every input of its corpus, then inputs that are made of them, the same
// ones on every machine. Both outcomes have to occur, or the loop would show nothing; takes-all is said for
// readers that pass over what they do not know.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>
#include <vector>

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

/// The input on which a target ends the process lies here, to become part of the corpus.
void run(const std::string& input, const fs::path& last) {
  std::ofstream(last, std::ios::binary | std::ios::trunc) << input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}
}  // namespace

int main(int argc, char** argv) {
  const bool takes_all = argc == 5 && argv[4] == std::string_view("takes-all");
  if (argc != 4 && !takes_all) {
    std::cerr << "usage: " << argv[0] << " CORPUS DICTIONARY MUTATIONS [takes-all]\n";
    return 2;
  }
  const size_t mutations = std::stoul(argv[3]);
  const fs::path last = std::string(argv[0]) + ".last";
  std::vector<std::string> corpus;
  for (const auto& file : files_in(argv[1])) corpus.push_back(read_file(file));
  for (const auto& input : corpus) run(input, last);
  const std::vector<std::string> words = words_of(argv[2]);
  for (uint64_t seed = 0; seed < mutations; ++seed)
    run(fuzz::Mutator(seed, words)(corpus[seed % corpus.size()]), last);
  fs::remove(last);
  const auto [accepted, refused] = fuzz::outcomes();
  std::cout << corpus.size() << " inputs of the corpus and " << mutations << " made of them: " << accepted
            << " accepted, " << refused << " refused\n";
  const size_t few = mutations / 200;
  if (accepted > few && (takes_all ? refused == 0 : refused > few)) return 0;
  std::cerr << "the inputs are too much alike: they show little\n";
  return 1;
}
