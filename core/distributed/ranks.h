#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace optrush {
class PlannedMail;

/// This process's place among those that train one model together, and where they meet.
struct Ranks {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< among those of this machine
  std::string host;                        ///< of the store that rank 0 serves
  uint16_t port = 0;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< of a collective, and of joining
  std::string gpu;  ///< that it trains on, the same name on every rank; "": none
  /// Nothing is connected or sent: a plan of one rank's part, made by one process.
  bool alone = false;
  std::shared_ptr<PlannedMail> mail;  ///< of a plan that goes from rank to rank; null: nothing arrives

  /// Of torchrun's variables RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; an
  /// Error names what is missing, or says that WORLD_SIZE is not `size`.
  static Ranks from_environment(int64_t size);
  /// "HOST:PORT"; an Error says what is wrong with it.
  void meet_at(const std::string& store);
  /// Rank `rank` of `size`, for a plan.
  static Ranks planned(int64_t rank, int64_t size, std::shared_ptr<PlannedMail> mail = nullptr);
};
}  // namespace optrush
