// The order of the rooms, as CMakeLists.txt declares it by lra_room(), and what breaks it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lra::rooms {

using Strings = std::vector<std::string>;

inline const std::string kBase = "attention_variants/base";  // which all may include
inline const std::string kKernels = "attention_variants/ops/cpu/kernels";
inline const std::string kCudaKernels = "attention_variants/ops/cuda/kernels";

/// The rooms, and the files that are held to them.
struct House {
  std::map<std::string, Strings> rooms;      // folder, or a header -> what it may include
  std::map<std::string, std::string> files;  // path -> code
};

/// Lines "FOLDER: folder...".
std::map<std::string, Strings> parse_rooms(const std::string& text);

/// The room with the longest name that `path` begins with; "" where there is none.
std::string room_of(const House& house, const std::string& path);

// Each of these lists what is found, as "FILE:LINE: what" or by the room's name.

/// Pairs of rooms, the including one first.
using Edges = std::set<std::pair<std::string, std::string>>;

/// Includes of this project's files that the room of the file does not declare; those of `allowed`
/// pass all the same.
Strings undeclared_includes(const House& house, const Edges& allowed = {});

/// Declared edges "FROM: TO" that no include of FROM uses.
Strings unused_edges(const House& house);

/// Files of no room, and rooms whose declaration names one that is not declared.
Strings undeclared_rooms(const House& house);

/// Rooms from which their declarations lead back to them.
Strings circles(const House& house);

/// Folders with fewer than two units (a header, a source, or both of one name) or over 30 files.
Strings ill_sized(const House& house);

/// Where rooms that do without LibTorch include it.
Strings torch_includes(const House& house);

/// Where `code` holds one of `names` as a whole string literal.
Strings named(const std::string& file, std::string_view code, const Strings& names);

/// Where files outside `folder` do.
Strings named_outside(const House& house, const std::string& folder, const Strings& names);

}  // namespace lra::rooms
