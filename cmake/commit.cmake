# Writes OUT, which says of which commit SOURCE is, as a source file; left alone where it says so already, so that a build after a
# commit compiles that one file.
set(commit "")
# Whoever owns it: git before 2.38 takes safe.directory of files alone.
file(WRITE ${OUT}.gitconfig "[safe]\n\tdirectory = *\n")
set(git ${CMAKE_COMMAND} -E env GIT_CONFIG_GLOBAL=${OUT}.gitconfig git -C ${SOURCE})
execute_process(COMMAND ${git} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(source ${SOURCE} REALPATH)
if(top STREQUAL source)  # and not a folder of another project's checkout
  execute_process(COMMAND ${git} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(text "namespace lra::host {\nconst char* source_commit();  // harness/host/runtime.h, without LibTorch's headers\nconst char* source_commit() { return \"${commit}\"; }\n}  // namespace lra::host\n")
set(held "")
if(EXISTS ${OUT})
  file(READ ${OUT} held)
endif()
if(NOT held STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
