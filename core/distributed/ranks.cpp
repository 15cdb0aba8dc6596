#include "distributed/ranks.h"

#include <charconv>
#include <utility>

#include "machine/environment.h"
#include "optrush/error.h"

namespace optrush {
namespace {
int64_t number(const std::string& name, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || *end != '\0' || value < least || value > most)
    throw Error(ErrorCode::invalid_value, name + " is '" + text + "'",
                "it must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

int64_t number(const char* name, int64_t least, int64_t most) {
  const std::string text = environment_variable(name);
  if (text.empty())
    throw Error(ErrorCode::wrong_ranks, std::string(name) + " is not set, but the spec needs several ranks",
                "start the ranks with 'optrush run' or torchrun --no-python");
  return number(name, text, least, most);
}
}  // namespace

Ranks Ranks::from_environment(int64_t size) {
  Ranks ranks;
  ranks.size = number("WORLD_SIZE", 1, 65536);
  if (ranks.size != size)
    throw Error(
        ErrorCode::wrong_ranks,
        "WORLD_SIZE is " + std::to_string(ranks.size) + ", but train.world_size is " + std::to_string(size),
        "start train.world_size processes");
  ranks.rank = number("RANK", 0, size - 1);
  const auto given = [](const char* name) { return !environment_variable(name).empty(); };
  ranks.local_rank = given("LOCAL_RANK") ? number("LOCAL_RANK", 0, size - 1) : ranks.rank;
  ranks.local_size = given("LOCAL_WORLD_SIZE") ? number("LOCAL_WORLD_SIZE", 1, size) : size;
  ranks.host = given("MASTER_ADDR") ? environment_variable("MASTER_ADDR") : "127.0.0.1";
  ranks.port = static_cast<uint16_t>(number("MASTER_PORT", 1, 65535));
  ranks.timeout = collective_timeout();
  return ranks;
}

void Ranks::meet_at(const std::string& store) {
  const size_t colon = store.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw Error(ErrorCode::invalid_value, "'" + store + "' is not an address", "write HOST:PORT");
  host = store.substr(0, colon);
  port = static_cast<uint16_t>(number("the port of '" + store + "'", store.substr(colon + 1), 1, 65535));
}

Ranks Ranks::planned(int64_t rank, int64_t size, std::shared_ptr<PlannedMail> mail) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .alone = true,
          .mail = std::move(mail)};
}
}  // namespace optrush
