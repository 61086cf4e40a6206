#include "results/analysis/profile_cells.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "results/tables/profile_table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

using PassSamples = std::vector<std::vector<double>>;

TEST(PassesOf, LeaveNoisyOnesOutWhereEnoughAreQuiet) {
  ProfileTime time{.median = 1, .samples = {1, 2, 3, 4, 5}};
  EXPECT_EQ(passes_of(time, 1), (PassSamples{{1, 2, 3, 4, 5}})) << "one process";
  time.passes = {{.samples = 2}, {.samples = 1, .noisy = "loud"}, {.samples = 2}};
  EXPECT_EQ(passes_of(time, 2), (PassSamples{{1, 2}, {4, 5}}));
  EXPECT_EQ(passes_of(time, 3), (PassSamples{{1, 2}, {3}, {4, 5}}));
}

TEST(RooflineModel, IsTheLowerOfTheTwoLines) {
  const Roofline machine{.gflops = 300, .gigabytes_per_second = 40};
  EXPECT_DOUBLE_EQ(attainable_gflops(machine, 1e9, 1e8), 300) << "10 operations a byte";
  EXPECT_DOUBLE_EQ(attainable_gflops(machine, 1e9, 2e8), 200) << "5 a byte";
  EXPECT_DOUBLE_EQ(attainable_gflops(machine, 1e9, 0), 300) << "nothing has to move";
}

Profile model_cell(const std::string& attention, int64_t length, const std::string& values) {
  Profile p = example_profile(attention, length, 1, static_cast<double>(length));
  p.scope = ProfileScope::model;
  p.protocol = "mine";
  p.task = "listops";
  p.protocol_sha256 = values;
  return p;
}

// Of cells without values: of which file, under which settings of that cell.
Profile earlier_cell(const std::string& attention, int64_t length, const std::string& settings,
                     const std::string& file = "") {
  Profile p = model_cell(attention, length, "");
  p.settings_sha256 = settings;
  p.path = file;
  return p;
}

const std::string kFirst(64, '1'), kSecond(64, '2');

// "standard 64, standard 96 | standard 64": the cells of each group.
std::string groups_text(const std::vector<Profile>& profiles) {
  std::string text;
  for (const ProfileGroup& group : group_profiles(profiles)) {
    text += text.empty() ? "" : "| ";
    for (const auto& [row, cells] : group.rows) {
      for (const auto& [length, cell] : cells) text += fmt::format("{} {} ", row, length);
    }
  }
  return text;
}

int64_t notes_on(const Table& table, const std::string& what) {
  return std::ranges::count_if(table.notes, [&](const auto& note) { return contains(note, what); });
}

Profile file_cell(int64_t length, char hash, const json& imports = json::object()) {
  Profile p = example_profile("python:my.py:A", length, 1, static_cast<double>(length));
  p.attention.options = {{"file", "my.py"},
                         {"class", "A"},
                         {"k", 3},
                         {"sha256", std::string(64, hash)},
                         {"imports_sha256", imports}};
  return p;
}

TEST(ProfileGroups, NameWhatDiffersUnderOneLabelAlone) {
  std::vector<Profile> cells{file_cell(64, '1'), file_cell(96, '1')};
  EXPECT_EQ(groups_text(cells), "python:my.py:A 64 python:my.py:A 96 ");
  cells[1] = file_cell(64, '2');
  EXPECT_EQ(groups_text(cells),
            "python:my.py:A {sha256=11111111} 64 python:my.py:A {sha256=22222222} 64 ");
  cells[1].attention.options["k"] = 4;
  EXPECT_EQ(groups_text(cells),
            "python:my.py:A {k=3, sha256=11111111} 64 python:my.py:A {k=4, sha256=22222222} 64 ");
  // A hash of each module that it imports.
  cells[1] = file_cell(64, '1', {{"other.py", std::string(64, '3')}});
  const std::vector<ProfileGroup> groups = group_profiles(cells);
  ASSERT_EQ(groups[0].rows.size(), 2u);
  for (const auto& [name, of_row] : groups[0].rows) {
    EXPECT_TRUE(name.starts_with("python:my.py:A {imports_sha256=")) << name;
    EXPECT_EQ(name.size(), std::string("python:my.py:A {imports_sha256=12345678}").size()) << name;
  }
  // Other packages have rows of their own.
  cells[1] = file_cell(64, '2');
  cells[1].package = "p 1.0";
  EXPECT_EQ(groups_text(cells), "python:my.py:A 64 python:my.py:A (p 1.0) 64 ");
}

TEST(ProfileGroups, AreOfOneProtocolsValues) {
  const std::vector<Profile> both{model_cell("a", 64, kFirst), model_cell("b", 96, kSecond),
                                  model_cell("a", 96, kFirst)};
  ASSERT_EQ(groups_text(both), "a 64 a 96 | b 96 ");
  const std::vector<ProfileGroup> groups = group_profiles(both);
  EXPECT_TRUE(contains(groups[0].setting, ", protocol mine (values 11111111), listops, on Xeon"))
      << groups[0].setting;
  EXPECT_TRUE(contains(groups[1].setting, ", protocol mine (values 22222222), listops, on Xeon"))
      << groups[1].setting;
  const std::vector<Table> tables = memory_time_tables(both, {});
  ASSERT_EQ(tables.size(), 2u);
  for (const Table& table : tables)
    EXPECT_EQ(notes_on(table, "other values of the protocol"), 1) << table.title;
}

TEST(ProfileGroups, OfOneProtocolSayNothingOfItsValues) {
  const std::vector<Profile> one{model_cell("a", 64, kFirst), model_cell("b", 64, kFirst)};
  EXPECT_EQ(groups_text(one), "a 64 b 64 ");
  EXPECT_TRUE(contains(group_profiles(one)[0].setting, ", protocol mine, listops, on Xeon"));
  EXPECT_EQ(notes_on(memory_time_tables(one, {})[0], "other values of the protocol"), 0);
}

TEST(ProfileGroups, WithoutValuesJoinTheOnlyOnesThereAre) {
  EXPECT_EQ(groups_text({earlier_cell("a", 64, ""), model_cell("b", 64, kFirst)}), "a 64 b 64 ");
  const std::vector<Profile> several{earlier_cell("a", 64, ""), model_cell("b", 64, kFirst),
                                     model_cell("b", 64, kSecond)};
  ASSERT_EQ(groups_text(several), "b 64 | b 64 | a 64 ");
  EXPECT_TRUE(contains(group_profiles(several)[2].setting, "mine (values not known), listops"));
}

TEST(ProfileGroups, AreOfOneProcessor) {
  const auto of = [](const std::string& attention, const std::string& model,
                     const std::string& capability) {
    Profile p = example_profile(attention, 64, 1, 1);
    p.machine.processor_model = model;
    if (!capability.empty()) p.software["cpu_capability"] = capability;
    return p;
  };
  EXPECT_EQ(groups_text({of("a", "family 25", ""), of("b", "", "")}), "a 64 b 64 ")
      << "earlier records do not say it";
  const std::vector<Profile> two{of("a", "family 25", ""), of("a", "family 26", "")};
  ASSERT_EQ(groups_text(two), "a 64 | a 64 ");
  EXPECT_TRUE(contains(group_profiles(two)[1].setting, ", cpu, processor family 26, 2 threads"));
  EXPECT_EQ(notes_on(memory_time_tables(two, {})[1], "other processors of this name"), 1);
  const std::vector<Profile> old{of("a", "", "AVX2"), of("a", "", "AVX512")};
  ASSERT_EQ(groups_text(old), "a 64 | a 64 ");
  EXPECT_TRUE(contains(group_profiles(old)[0].setting, ", cpu, LibTorch's AVX2, 2 threads"));
}

TEST(ProfileGroups, AreOfOneSetOfKernels) {
  const auto of = [](const std::string& attention, const std::string& kernels) {
    Profile p = example_profile(attention, 64, 1, 1);
    if (!kernels.empty()) p.software["kernels"] = kernels;
    return p;
  };
  const std::vector<Profile> one{of("a", "avx2"), of("b", "")};
  EXPECT_EQ(groups_text(one), "a 64 b 64 ") << "earlier records do not say it";
  EXPECT_TRUE(contains(group_profiles(one)[0].setting, ", cpu, 2 threads, on "));
  std::vector<Profile> cells{of("a", "avx512"), of("a", "avx2"), of("b", "")};
  ASSERT_EQ(groups_text(cells), "b 64 | a 64 | a 64 ");
  const std::vector<ProfileGroup> groups = group_profiles(cells);
  EXPECT_TRUE(contains(groups[0].setting, ", cpu, kernels not known, 2 threads, on "));
  EXPECT_TRUE(contains(groups[1].setting, ", cpu, kernels avx2, 2 threads, on "));
  EXPECT_TRUE(contains(groups[2].setting, ", cpu, kernels avx512, 2 threads, on "));
  EXPECT_EQ(notes_on(memory_time_tables(cells, {})[1], "other sets of the CPU's kernels"), 1);
  cells[2].package = "torch 2.9";
  EXPECT_EQ(groups_text(cells), "a 64 b (torch 2.9) 64 | a 64 b (torch 2.9) 64 ")
      << "a package uses none of them";
  std::vector<Profile> files = cells;
  files[0].path = "one";
  files[1].path = files[2].path = "two";
  EXPECT_EQ(groups_text(files), "a 64 b (torch 2.9) 64 | a 64 ")
      << "it was measured beside the rows of its file";
  std::vector<Profile> values = cells;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].settings_sha256 = i == 1 ? "t" : "s";
    values[i].path = i == 1 ? "two" : "one";
  }
  values.push_back(values[0]);
  values.back().settings_sha256 = "t";
  EXPECT_EQ(groups_text(values), "a 64 b (torch 2.9) 64 | a 64 | a 64 ")
      << "a package's are of their protocol's values";
  for (Profile& p : cells) p.device = "cuda:0";
  EXPECT_EQ(groups_text(cells), "a 64 b (torch 2.9) 64 ") << "nor does a GPU";
  cells[1].software["gpu_kernels"] = "LibTorch's";
  EXPECT_EQ(groups_text(cells), "a 64 b (torch 2.9) 64 | a 64 b (torch 2.9) 64 ")
      << "where it is too old for the own ones";
  EXPECT_TRUE(contains(group_profiles(cells)[0].setting, ", kernels LibTorch's, "));
}

// settings_sha256 holds the length, and what the protocol has for the attention alone.
TEST(ProfileGroups, WithoutValuesAreToldApartByTheSettingsOfTheSameCell) {
  EXPECT_EQ(groups_text({earlier_cell("a", 64, "s1"), earlier_cell("a", 96, "s2"),
                         earlier_cell("b", 64, "s3")}),
            "a 64 a 96 b 64 ");
  const std::vector<Profile> files{
      earlier_cell("a", 64, "s1", "one"), earlier_cell("a", 96, "s2", "one"),
      earlier_cell("b", 64, "t3", "two"), earlier_cell("a", 64, "t1", "two")};
  ASSERT_EQ(groups_text(files), "a 64 a 96 | a 64 b 64 ");
  EXPECT_TRUE(contains(group_profiles(files)[1].setting, "mine (settings t3), listops"));
  EXPECT_EQ(groups_text({earlier_cell("a", 64, "s1"), earlier_cell("a", 64, "t1")}),
            "a 64 | a 64 ");
  Profile later = model_cell("a", 64, kFirst), other = model_cell("a", 64, kSecond);
  later.settings_sha256 = "s1";
  EXPECT_EQ(groups_text({later, other, earlier_cell("a", 64, "s1")}), "a 64 | a 64 ")
      << "the same settings are of the same values";
  EXPECT_EQ(groups_text({later, earlier_cell("a", 64, "t1")}), "a 64 | a 64 ");
}

TEST(ProfileGroups, AreToldApartByWhatAProtocolHasForAnAttentionAlone) {
  std::vector<Profile> cells{model_cell("a", 64, kFirst), model_cell("b", 64, kFirst),
                             model_cell("b", 64, kFirst)};
  cells[1].own_settings_sha256 = kSecond;
  EXPECT_EQ(groups_text({cells[0], cells[1]}), "a 64 b 64 ");
  ASSERT_EQ(groups_text(cells), "a 64 b 64 | b 64 ");
  EXPECT_TRUE(contains(group_profiles(cells)[0].setting, "(values 11111111, own 22222222)"));
  EXPECT_TRUE(contains(group_profiles(cells)[1].setting, "(values 11111111, own none)"));
}

}  // namespace
}  // namespace lra
