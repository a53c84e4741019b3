# Sourced by interop/run: installs each client from its registry, pinned, into interop/.env and interop/ndnts/node_modules.
# What is installed already with the same pins stays.

# check_installed NAME INSTALLER: a client that cannot be installed is a failed check, never a skipped one.
check_installed() {
    if ! ("$2") >"$work/install.log" 2>&1 </dev/null; then
        failed=$((failed + 1))
        echo "FAIL  $1: cannot be installed"
        tail -n 20 "$work/install.log" | sed 's/^/      | /'
        return 1
    fi
}

install_python_ndn() {
    local venv=$here/.env/python pins=$here/python_ndn/requirements.txt
    cmp -s "$pins" "$venv/installed.txt" && return 0
    rm -rf "$venv"
    if ! timeout 120 python3 -m venv "$venv"; then
        # Debian keeps ensurepip in a package of its own.
        [ "$(id -u)" = 0 ] && apt-get update -q && apt-get install -qy python3-venv
        rm -rf "$venv"
        timeout 120 python3 -m venv "$venv" || return 1
    fi
    timeout 300 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins" && cp "$pins" "$venv/installed.txt"
}

install_ndnts() {
    local lock=$here/ndnts/package-lock.json
    if ! command -v npm; then
        [ "$(id -u)" = 0 ] && apt-get update -q && apt-get install -qy nodejs npm
    fi
    cmp -s "$lock" "$here/ndnts/node_modules/.installed-lock.json" && return 0
    (cd "$here/ndnts" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund) && cp "$lock" "$here/ndnts/node_modules/.installed-lock.json"
}

# Not every registry of Go modules has it.
install_ndnd() {
    local home=$here/.env/ndnd
    [ -x "$home/ndnd" ] && return 0
    GOBIN=$home timeout 300 go install github.com/named-data/ndnd/cmd/ndnd@latest
}

# The test authority of Let's Encrypt, with its certificates, which are in the module.
install_pebble() {
    local home=$here/.env/pebble module=github.com/letsencrypt/pebble/v2 version
    [ -e "$home/certs/pebble.minica.pem" ] && return 0
    rm -rf "$home"
    GOBIN=$home timeout 300 go install "$module/cmd/pebble@latest" "$module/cmd/pebble-challtestsrv@latest" || return 1
    version=$(go version -m "$home/pebble" | awk '$1 == "mod" { print $3 }')
    cp -r "$(go env GOMODCACHE)/$module@$version/test/certs" "$home/certs" && chmod -R u+w "$home/certs"
}

# The server of a fleet's log.
install_nats() {
    local home=$here/.env/nats
    [ -x "$home/nats-server" ] && return 0
    GOBIN=$home timeout 400 go install github.com/nats-io/nats-server/v2@latest
}

# A server with the protocol of S3.
install_gofakes3() {
    local home=$here/.env/gofakes3
    [ -x "$home/gofakes3" ] && return 0
    GOBIN=$home timeout 300 go install github.com/johannesboyne/gofakes3/cmd/gofakes3@latest
}

# Debian's, which is too old for a fleet: unpacked, not installed, so that it never runs as a service.
install_old_nats() {
    local home=$here/.env/old_nats
    [ -x "$home/usr/sbin/nats-server" ] && return 0
    command -v apt-get && command -v dpkg-deb || return 1
    rm -rf "$home"
    mkdir -p "$home"
    (cd "$home" && { timeout 60 apt-get download -q nats-server || { apt-get update -q && timeout 60 apt-get download -q nats-server; }; } &&
        dpkg-deb -x nats-server_*.deb . && rm nats-server_*.deb)
    [ -x "$home/usr/sbin/nats-server" ]
}

# libcurl, niquests and aioquic for HTTP/3.
install_http3() {
    local venv=$here/.env/http3 pins=$here/http3/requirements.txt
    cmp -s "$pins" "$venv/installed.txt" && return 0
    rm -rf "$venv"
    timeout 120 python3 -m venv "$venv" || return 1
    timeout 300 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins" && cp "$pins" "$venv/installed.txt"
}

# install_quic_go FILE: builds the client of quic-go there.
install_quic_go() {
    [ -x "$1" ] && return 0
    (cd "$here/http3/quic_go" && timeout 300 go build -o "$1" .)
}

# The survey names npm itself and what draws its pages as its dependencies: of these only the one that asks is installed.
install_http_survey() {
    local home=$here/.env/http_survey version=0.4.5
    [ -e "$home/$version" ] && return 0
    rm -rf "$home"
    mkdir -p "$home"
    cp "$here/http_survey/package.json" "$here/http_survey/package-lock.json" "$home"
    (cd "$home" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund && timeout 120 npm pack --silent "http-cache-tests@$version") || return 1
    mkdir "$home/node_modules/http-cache-tests"
    tar -xzf "$home/http-cache-tests-$version.tgz" --strip-components=1 -C "$home/node_modules/http-cache-tests" && touch "$home/$version"
}

# Flask and its servers, with the clients of interop/apps; and Express.
install_apps() {
    local venv=$here/.env/apps pins=$here/apps/flask/requirements.txt lock=$here/apps/express/package-lock.json
    if ! cmp -s "$pins" "$venv/installed.txt"; then
        rm -rf "$venv"
        timeout 120 python3 -m venv "$venv" || return 1
        timeout 300 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins" && cp "$pins" "$venv/installed.txt" || return 1
    fi
    cmp -s "$lock" "$here/apps/express/node_modules/.installed-lock.json" && return 0
    (cd "$here/apps/express" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund) && cp "$lock" "$here/apps/express/node_modules/.installed-lock.json"
}

# Without the Chromium that puppeteer downloads: Debian's is driven.
install_report() {
    local lock=$here/report/package-lock.json
    cmp -s "$lock" "$here/report/node_modules/.installed-lock.json" && return 0
    (cd "$here/report" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund) && cp "$lock" "$here/report/node_modules/.installed-lock.json"
}

# have PACKAGES TEST...: what the command TEST finds, from Debian's packages if root may install them. Other systems go without, and the
# run says so.
have() {
    local packages=$1
    shift
    (PATH=$PATH:/usr/sbin && "$@") >/dev/null 2>&1 && return 0
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    { apt-get update -q && apt-get install -qy --no-install-recommends $packages; } >"$work/install.log" 2>&1 </dev/null
    (PATH=$PATH:/usr/sbin && "$@") >/dev/null 2>&1
}
