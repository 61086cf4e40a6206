# add_suite_tests(TARGET): CTest entries for a Google Test program, one a suite, where LibTorch's start would cost more
# than most single tests: lra/Pathfinder is suite Pathfinder of lra_tests. What has more than ten tests is cut into shards,
# lra/Pathfinder.1of2, so that all cores stay busy. Each entry writes Google Test's report to reports/ENTRY.xml ('/' as '.'),
# from which ./run test counts single tests. SERIAL suites run alone.
#
# The suites are listed once the program is linked, by this file run as a script.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(lra_suite_tests_script ${CMAKE_CURRENT_LIST_FILE})
  function(add_suite_tests target)
    cmake_parse_arguments(PARSE_ARGV 1 suites "" "" "SERIAL")
    list(JOIN suites_SERIAL "," serial)
    set(entries ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
    add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${entries} VERBATIM
                       COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D ENTRIES=${entries}
                               -D REPORTS=${CMAKE_BINARY_DIR}/reports -D SERIAL=${serial} -P ${lra_suite_tests_script})
    set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites_include.cmake)
    file(WRITE ${include} "if(EXISTS \"${entries}\")\n  include(\"${entries}\")\nelse()\n"
                          "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
  endfunction()
  return()
endif()

cmake_minimum_required(VERSION 3.22)
set(most_tests 10)
set(text "")
string(REPLACE "," ";" serial "${SERIAL}")
# write_entry(NAME SUITE ENVIRONMENT...)
function(write_entry name suite)
  string(REPLACE "/" "." file ${name})
  set(properties TIMEOUT 1800)
  if(suite MATCHES "^Slow|/Slow")
    set(properties TIMEOUT 3600 LABELS slow)
  endif()
  if(suite IN_LIST serial)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  list(JOIN properties " " properties)
  string(APPEND text "add_test([=[${name}]=] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==]"
                     " [==[--gtest_output=xml:${REPORTS}/${file}.xml]==])\n"
                     "set_tests_properties([=[${name}]=] PROPERTIES ${properties} ENVIRONMENT [==[OMP_NUM_THREADS=1;${ARGN}]==])\n")
  set(text ${text} PARENT_SCOPE)
endfunction()

execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE status TIMEOUT 120)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} does not list its tests: ${status}\n${listed}")
endif()
string(REGEX REPLACE " *#[^\n]*" "" listed "${listed}")  # parameters
string(REPLACE "\n" ";" listed "${listed}")
set(suites "")
foreach(line ${listed})
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
    list(APPEND suites ${suite})
    set(tests_${suite} 0)
  elseif(line MATCHES "^  ")
    math(EXPR tests_${suite} "${tests_${suite}} + 1")
  endif()
endforeach()
get_filename_component(room ${PROGRAM} NAME)
string(REGEX REPLACE "_tests$" "" room ${room})
foreach(suite ${suites})
  math(EXPR shards "(${tests_${suite}} + ${most_tests} - 1) / ${most_tests}")
  if(shards LESS 2)
    write_entry(${room}/${suite} ${suite})
    continue()
  endif()
  foreach(shard RANGE 1 ${shards})
    math(EXPR index "${shard} - 1")
    write_entry(${room}/${suite}.${shard}of${shards} ${suite} GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${index})
  endforeach()
endforeach()
file(WRITE ${ENTRIES} "${text}")
