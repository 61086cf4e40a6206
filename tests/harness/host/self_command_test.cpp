// Files beside the program, and for a while.
#include "harness/host/self_command.h"

#include <gtest/gtest.h>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "harness/host/temporary_folder.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

TEST(ModuleFile, IsBesideTheProgramOrWhereItWasBuilt) {
  const Scratch scratch;
  const fs::path built = scratch.path() / "module.so", program = fs::canonical("/proc/self/exe");
  write_file(built, "");
  EXPECT_EQ(host::module_file(built), built);
  // That of an installed package is its own, though the folder of the build is there still.
  const fs::path package = scratch.path() / "package";
  fs::create_directory(package);
  write_file(package / "_lra.so", "");
  EXPECT_EQ(host::module_file(built, package / "_lra.so"), built);
  write_file(package / "module.so", "");
  EXPECT_EQ(host::module_file(built, package / "_lra.so"), package / "module.so");
  EXPECT_EQ(host::module_file(built, scratch.path() / "gone" / "_lra.so"), built);
  EXPECT_EQ(host::module_file("", package / "_lra.so"), "");  // none was built
  // This program stands for a module that lies beside it.
  EXPECT_EQ(host::module_file(scratch.path() / program.filename()), program);
  // Of one that is nowhere the message names the place of the build.
  EXPECT_EQ(host::module_file(scratch.path() / "none.so"), scratch.path() / "none.so");
}

TEST(TemporaryFolder, GoesWithAllThatItHolds) {
  const Scratch scratch;
  fs::path path;
  {
    const host::TemporaryFolder folder(scratch.path(), "work"), other(scratch.path(), "work");
    path = folder.path();
    EXPECT_EQ(path.parent_path(), scratch.path());
    EXPECT_NE(path, other.path());
    fs::create_directory(path / "inner");
    write_file(path / "inner" / "file", "text");
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  EXPECT_THROW(host::TemporaryFolder(scratch.path() / "none"), Error);
}

}  // namespace
}  // namespace lra
