#!/bin/sh
# What must be there before anything can be installed: Java, then Python. One sentence each; exit 4.
# The same rules as src/kaput/java.py: JAVA_HOME if that is set, else java on the PATH.
set -u

fail() {
    echo "kaput: $1" >&2
    exit 4
}

need_java() {
    fail "Java 17 or newer is needed, but $1; install it: apt install openjdk-17-jre-headless (or\
 openjdk-21-jre-headless), dnf install java-21-openjdk-headless, or brew install --cask temurin@21"
}

if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    [ -x "$java" ] || need_java "JAVA_HOME is $JAVA_HOME, which has no bin/java"
else
    java=$(command -v java) || need_java "there is no java on the PATH and JAVA_HOME is not set"
fi
said=$("$java" -version 2>&1) || need_java "$java does not work"
version=$(printf '%s\n' "$said" | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || need_java "$java is version ${version:-unknown}"

python=${1:-python3}
command -v "$python" >/dev/null || fail "Python 3.11 or newer is needed, but there is no $python; name another: make PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or newer is needed, but $python is $("$python" -V 2>&1); name another: make PYTHON=python3.12"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python cannot make virtual environments; install that part of it: apt install python3-venv"
