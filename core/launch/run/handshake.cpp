#include "launch/run/handshake.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace optrush {
namespace {
constexpr std::string_view kProtocol = "optrush1";
constexpr size_t kNonce = 32, kMac = crypto_auth_hmacsha256_BYTES, kMacText = 2 * kMac;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// HMAC-SHA256 of the parts, one after the other.
std::string mac(std::string_view key, std::initializer_list<std::string_view> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(key), key.size());
  for (const auto part : parts) crypto_auth_hmacsha256_update(&state, bytes(part), part.size());
  std::array<unsigned char, kMac> result{};
  crypto_auth_hmacsha256_final(&state, result.data());
  return {result.begin(), result.end()};
}

/// Compares in a time that does not depend on the content.
bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string cut_from(std::string& text, size_t size) {
  std::string first = text.substr(0, size);
  text.erase(0, size);
  return first;
}
}  // namespace

WrongSecret::WrongSecret()
    : Error(ErrorCode::network, "it has another secret than this process",
            "all processes of a job need one secret: give them one home folder, or set OPTRUSH_JOB_SECRET to "
            "the same text in all of them") {}

Handshake::Handshake(End own, JobSecret secret)
    : own_(own), secret_(std::move(secret)), greeting_(std::string(kProtocol) + random_bytes(kNonce)) {}

void Handshake::advance(std::string& arrived, std::string& pending) {
  if (stage_ == Stage::greeting) {
    const size_t begun = std::min(arrived.size(), kProtocol.size());
    if (arrived.compare(0, begun, kProtocol, 0, begun) != 0)
      throw Error(ErrorCode::network, "it does not speak the protocol of this version of optrush");
    if (arrived.size() < greeting_.size()) return;
    const std::string other = cut_from(arrived, greeting_.size());
    const bool is_rank_0 = own_ == End::rank_0;
    const std::string &first = is_rank_0 ? greeting_ : other, &second = is_rank_0 ? other : greeting_;
    const auto keyed = [&](std::string_view what) { return mac(secret_.bytes, {what, first, second}); };
    const std::string proof_of_0 = keyed("proof of rank 0"), proof_of_other = keyed("proof of another rank");
    const std::string lines_of_0 = keyed("lines of rank 0"), lines_of_other = keyed("lines of another rank");
    own_proof_ = is_rank_0 ? proof_of_0 : proof_of_other;
    expected_proof_ = is_rank_0 ? proof_of_other : proof_of_0;
    there_.key = is_rank_0 ? lines_of_0 : lines_of_other;
    here_.key = is_rank_0 ? lines_of_other : lines_of_0;
    stage_ = Stage::proof;
    // Rank 0 gives no proof to an unauthenticated peer, which could try secrets on it.
    if (!is_rank_0) pending += own_proof_;
  }
  if (stage_ == Stage::done || arrived.size() < kMac) return;
  const bool fits = same(cut_from(arrived, kMac), expected_proof_);
  if (own_ == End::rank_0) pending += fits ? own_proof_ : std::string(kMac, '\0');
  if (!fits) throw WrongSecret();
  stage_ = Stage::done;
}

std::string Handshake::Direction::next_mac(std::string_view line) {
  const std::string place = std::to_string(lines++) + " ";
  return hexadecimal(mac(key, {place, line}));
}

std::string Handshake::sealed(std::string_view line) {
  std::string sealed = there_.next_mac(line) + " ";
  return sealed.append(line);
}

std::string Handshake::opened(std::string_view line) {
  if (line.size() <= kMacText || !same(line.substr(0, kMacText), here_.next_mac(line.substr(kMacText + 1))))
    throw Error(ErrorCode::network, "received a line that the other process did not send");
  return std::string(line.substr(kMacText + 1));
}
}  // namespace optrush
