#include "harness/profile/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"

namespace lra::profile {
namespace {

constexpr const char* kExample = "harness/profile/peers/profile_peers.py";

UsageError bad_program(const std::string& program, const std::string& what) {
  return UsageError(
      fmt::format("--peers {}: {}; it should be a program that answers --list and --child, as {}",
                  program, what, kExample));
}

}  // namespace

std::vector<Peer> list_peers(const std::string& program) {
  const host::ChildStatus ended =
      host::run_child({"--list"}, {.capture = true, .program = program});
  if (ended.signal == 0 && ended.exit == host::kNotFound)
    throw bad_program(program, "no such program, or its interpreter is missing");
  if (ended.signal != 0 || ended.exit != 0)
    throw bad_program(program,
                      fmt::format("--list: {}: {}", ended.text(), host::last_line(ended.err)));
  std::vector<Peer> peers;
  std::vector<std::string> missing;
  try {
    const json list = json::parse(ended.out);
    for (const json& entry : list) {
      const std::string name = entry.at("peer");
      if (entry.contains("missing")) {
        missing.push_back(fmt::format("{} ({})", name, entry["missing"].get<std::string>()));
        continue;
      }
      Peer peer{.name = name,
                .attention = parse_attention(entry.at("attention")),
                .package = entry.at("package"),
                .scopes = entry.at("scopes"),
                .dtypes = entry.at("dtypes")};
      // An unknown name or option would otherwise silently match no cell.
      attention_entry(peer.attention.name).effective_options(peer.attention.options);
      // One row of a table each.
      if (std::ranges::any_of(peers, [&](const Peer& other) {
            return other.package == peer.package && other.attention.text() == peer.attention.text();
          }))
        throw UsageError(
            fmt::format("--list names {} of {} twice", peer.attention.text(), peer.package));
      peers.push_back(std::move(peer));
    }
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--peers {}: {}", program, error.what()));
  } catch (const json::exception& error) {
    throw bad_program(program, fmt::format("--list: {}", error.what()));
  }
  if (peers.empty() && !missing.empty())
    throw UsageError(
        fmt::format("--peers {}: none is there: {}", program, fmt::join(missing, "; ")));
  if (peers.empty()) throw bad_program(program, "--list names no peer");
  if (!missing.empty()) host::say(fmt::format("left out: {}", fmt::join(missing, "; ")));
  return peers;
}

std::vector<ProfileCell> with_peers(const std::vector<ProfileCell>& cells,
                                    const std::vector<Peer>& peers) {
  std::vector<ProfileCell> all;
  for (const ProfileCell& cell : cells) {
    all.push_back(cell);
    for (const Peer& peer : peers) {
      if (peer.attention.name != cell.attention.name ||
          std::ranges::find(peer.scopes, to_string(cell.scope)) == peer.scopes.end() ||
          std::ranges::find(peer.dtypes, to_string(cell.dtype)) == peer.dtypes.end() ||
          attention_entry(peer.attention.name).effective_options(peer.attention.options) !=
              effective_options(cell))
        continue;
      all.push_back(cell);
      all.back().peer = peer.name;
      all.back().package = peer.package;
    }
  }
  return all;
}

Profile peer_record(const json& answer, Profile expected) {
  Profile said;
  try {
    said = parse_profile(answer);
  } catch (const std::exception& error) {
    throw Error(fmt::format("its answer is no line of a profile: {}", error.what()));
  }
  if (host::device_kind(said.device) != host::device_kind(expected.device)) {
    throw Error(
        fmt::format("its answer should be of device {}, not of {}", expected.device, said.device));
  }
  if (said.status == Status::ok && said.time->passes.size() != 1) {
    throw Error(fmt::format("its answer should hold the samples of one pass, not of {}",
                            said.time->passes.size()));
  }
  expected.status = said.status;
  expected.reason = said.reason;
  expected.time = said.time;
  expected.memory = said.memory;
  expected.software = said.software;
  return expected;
}

}  // namespace lra::profile
