# shellcheck shell=bash
# Completion of thp-validate for bash: the options that --help lists, and what some of them take.

_thp_validate() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    case $previous in
    --junit | --prometheus)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    --cgroup)
        compopt -o filenames -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        ;;
    --pid)
        mapfile -t COMPREPLY < <(cd /proc && compgen -W "$(echo [1-9]*)" -- "$current")
        ;;
    --kernel)
        mapfile -t COMPREPLY < <(compgen -W "$(ls /lib/modules 2>/dev/null)" -- "$current")
        ;;
    --allow-log | --watch | --samples) ;;
    *)
        local options
        options=$("$1" --help 2>/dev/null | grep -o -e '--[a-z-]*' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        ;;
    esac
}

complete -F _thp_validate thp-validate
