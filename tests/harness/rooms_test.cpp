// The order of the rooms: that each includes what CMakeLists.txt declares for it and no more, and
// that none names what another one registers.
#include "tests/harness/rooms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "attention_variants/base/files.h"
#include "attention_variants/registry.h"
#include "lra/data/task.h"

namespace lra {
namespace {

using namespace rooms;  // NOLINT
namespace fs = std::filesystem;

const House& this_house() {
  static const House house = [] {
    House read;
    const fs::path build = fs::path(LRA_PROGRAM).parent_path().parent_path();
    read.rooms = parse_rooms(read_file(build / "generated/rooms.txt"));
    const Strings extensions = {".cpp", ".h", ".cu", ".cuh"};
    for (const char* top : {"attention_variants", "lra", "results", "harness"}) {
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(LRA_SOURCE_DIR) / top)) {
        const fs::path& path = entry.path();
        if (std::ranges::count(extensions, path.extension().string()) == 0) continue;
        read.files[path.lexically_relative(LRA_SOURCE_DIR).string()] = read_file(path);
      }
    }
    return read;
  }();
  return house;
}

std::string lines(const Strings& found) {
  std::string text;
  for (const std::string& line : found) text += line + "\n";
  return text;
}

void expect_none(const Strings& found) { EXPECT_TRUE(found.empty()) << lines(found); }

// `found` without what begins with one of `known`.
Strings beyond(Strings found, const Strings& known) {
  std::erase_if(found, [&](const std::string& line) {
    return std::ranges::any_of(known, [&](const auto& k) { return line.starts_with(k); });
  });
  return found;
}

TEST(Rooms, AreDeclaredWithAllTheirFiles) {
  EXPECT_GE(this_house().files.size(), 250u);
  EXPECT_GE(this_house().rooms.size(), 30u);
  expect_none(undeclared_rooms(this_house()));
}

TEST(Rooms, IncludeWhatTheyDeclare) { expect_none(undeclared_includes(this_house())); }

TEST(Rooms, DeclareNoMoreThanTheyInclude) { expect_none(unused_edges(this_house())); }

TEST(Rooms, HaveNoCircle) { expect_none(circles(this_house())); }

TEST(Rooms, AreOfASizeToOversee) {
  const Strings known = {"harness: one unit"};  // the program itself
  expect_none(beyond(ill_sized(this_house()), known));
}

TEST(Rooms, OfPlainCodeDoWithoutLibTorch) { expect_none(torch_includes(this_house())); }

TEST(Rooms, NameNoVariantOutsideAttentionVariants) {
  Strings names;
  for (const AttentionEntry* entry : attention_entries()) names.push_back(entry->info.name);
  ASSERT_GE(names.size(), 2u);
  // Blocks, encoders and a head that share a name with one.
  const Strings known = {"lra/config/setting_values.h:"};
  expect_none(beyond(named_outside(this_house(), "attention_variants/", names), known));
}

TEST(Rooms, NameNoTaskOutsideTasks) {
  Strings names;
  for (const Task* known : tasks()) names.push_back(known->name);
  ASSERT_GE(names.size(), 1u);
  expect_none(named_outside(this_house(), "lra/tasks/", names));
}

// The tests above can fail: what they look for is found where it stands.
House planted() {
  return {.rooms = parse_rooms("attention_variants/base: \n"
                               "attention_variants/torch.h: \n"
                               "lra/data: lra/formats attention_variants/torch.h\n"
                               "lra/formats: \n"
                               "results/print: \n"),
          .files = {}};
}

TEST(Rooms, AForbiddenIncludeIsFound) {
  House house = planted();
  house.files["lra/data/a.cpp"] =
      "// #include \"results/print/a.h\"\n"
      "#include <vector>\n"
      "#include \"attention_variants/base/files.h\"\n"
      "#include \"attention_variants/torch.h\"\n"
      "#include \"lra/formats/npy.h\"\n"
      "  #  include \"results/print/table.h\"\n"
      "#include <results/print/html.h>\n"
      "#include \"files.h\"\n"
      "#include \"embedded_a.h\"\n";
  house.files["lra/formats/b.h"] = "#include \"lra/data/a.h\"\n";
  EXPECT_EQ(undeclared_includes(house), (Strings{"lra/data/a.cpp:6: includes results/print/table.h",
                                                 "lra/data/a.cpp:7: includes results/print/html.h",
                                                 "lra/data/a.cpp:8: includes files.h",
                                                 "lra/data/a.cpp:9: includes embedded_a.h",
                                                 "lra/formats/b.h:1: includes lra/data/a.h"}));
  EXPECT_EQ(undeclared_includes(house, {{"lra/data", "results/print"}}).size(), 3u);
}

TEST(Rooms, AnUnusedEdgeIsFound) {
  House house = planted();
  house.files["lra/data/a.cpp"] = "#include \"lra/formats/npy.h\"\n";
  EXPECT_EQ(unused_edges(house), (Strings{"lra/data: attention_variants/torch.h"}));
}

TEST(Rooms, TheLongestNameDecides) {
  House house = planted();
  house.rooms["lra/data/deep"] = {};
  EXPECT_EQ(room_of(house, "lra/data/deep/a.h"), "lra/data/deep");
  EXPECT_EQ(room_of(house, "lra/data/deeper/a.h"), "lra/data");
  EXPECT_EQ(room_of(house, "lra/database/a.h"), "");
}

TEST(Rooms, AnUndeclaredFolderIsFound) {
  House house = planted();
  house.files = {{"lra/data/a.h", ""}, {"lra/data/deep/b.h", ""}, {"lra/c.h", ""}};
  house.rooms["lra/formats"] = {"lra/nowhere"};
  EXPECT_EQ(undeclared_rooms(house),
            (Strings{"lra/c.h", "lra/data/deep/b.h", "lra/formats: lra/nowhere"}));
}

TEST(Rooms, ACircleIsFound) {
  House house = planted();
  EXPECT_EQ(circles(house), Strings{});
  house.rooms["lra/formats"] = {"results/print"};
  house.rooms["results/print"] = {"lra/data"};
  EXPECT_EQ(circles(house), (Strings{"lra/data", "lra/formats", "results/print"}));
}

TEST(Rooms, AFolderOfTheWrongSizeIsFound) {
  House house = planted();
  house.files = {{"lra/data/a.h", ""}, {"lra/data/a.cpp", ""}, {"lra/formats/a.h", ""}};
  for (int i = 0; i < 30; ++i) house.files["lra/formats/b" + std::to_string(i) + ".h"] = "";
  EXPECT_EQ(ill_sized(house), (Strings{"lra/data: one unit", "lra/formats: 31 files"}));
}

TEST(Rooms, LibTorchIsFoundWhereItHasNoPlace) {
  House house = planted();
  house.files["attention_variants/base/a.h"] = "#include <torch/torch.h>\n";
  house.files["results/print/b.cpp"] = "#include <vector>\n#include <c10/util/Half.h>\n";
  house.files["lra/data/c.cpp"] = "#include <ATen/ATen.h>\n";
  EXPECT_EQ(torch_includes(house), (Strings{"attention_variants/base/a.h:1: includes torch/torch.h",
                                            "results/print/b.cpp:2: includes c10/util/Half.h"}));
}

TEST(Rooms, ANameIsFoundOutsideItsFolderAlone) {
  House house = planted();
  house.files["lra/data/a.cpp"] = house.files["lra/database/b.cpp"] = "use(\"standard\");";
  EXPECT_EQ(named_outside(house, "lra/data/", {"standard"}),
            (Strings{"lra/database/b.cpp:1: \"standard\""}));
}

TEST(Rooms, AQuotedNameIsFound) {
  const std::string code =
      "// says \"nystrom\"\n"
      "const char quote = '\"'; /* \"nystrom\"\n"
      "*/ if (name == \"nystrom\") return 30'000;\n"
      "help(\"as in nystrom[num_landmarks=32]\", \"\\\"nystrom\", \"https://a\");\n"
      "parse(R\"(\n"
      "  {\"attention\": \"nystrom\"})\");  \n"
      "use(\"standard\", \"nystroms\");\n";
  EXPECT_EQ(named("planted.cpp", code, {"nystrom", "standard"}),
            (Strings{"planted.cpp:3: \"nystrom\"", "planted.cpp:6: \"nystrom\"",
                     "planted.cpp:7: \"standard\""}));
}

}  // namespace
}  // namespace lra
