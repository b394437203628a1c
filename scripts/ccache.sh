#!/bin/sh
# Compile a file of the kernel with the help of ccache: ccache.sh COMPILER ARGUMENTS, the file last, as kbuild has it.
#
# In its depend mode, ccache takes the names of the headers from the list that the compiler writes anyway. Otherwise it
# preprocesses each file only to look it up: a fifth more work for a build that finds nothing. But what the assembler
# includes is not in that list: ccache would bring back the module key and the compressed kernel of an earlier build. So
# it never sees a C file that says .incbin, nor assembly, which is quick to assemble.
for file; do :; done
case $file in
*.c)
    if ! grep -q incbin "$file"; then
        export CCACHE_DEPEND=1
        exec ccache "$@"
    fi
    ;;
esac
exec "$@"
