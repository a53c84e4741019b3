# shellcheck shell=bash
# What the checks under a real systemd share.

failed=0
# note STATUS WHAT: prints and remembers a check, and has its status.
note() {
    if [ "$1" = 0 ]; then
        echo "ok    $2"
    else
        echo "FAIL  $2"
        failed=1
    fi
    return "$1"
}
main() { systemctl show -p MainPID --value larder; }
answers() { curl -fsS -o /dev/null http://127.0.0.1/1000/a; }

# until_true COMMAND...: within ten seconds.
until_true() {
    local i
    for ((i = 0; i < 100; i++)); do "$@" && return 0; sleep 0.1; done
    return 1
}

# load COMMAND...: sends requests on new and on kept connections while COMMAND runs, and a second before and after it.
load() {
    python3 - "$@" <<'PYTHON'
import http.client, subprocess, sys, threading, time
done, failed = [0, 0], []
stop = threading.Event()
def client(number, keeps):
    connection = None
    while not stop.is_set():
        try:
            connection = connection or http.client.HTTPConnection("127.0.0.1", 80, timeout=20)
            connection.request("GET", f"/1000/{number}")
            answer = connection.getresponse()
            if answer.status != 200 or len(answer.read()) != 1000:
                failed.append(f"status {answer.status}")
            done[keeps] += 1
            if not keeps or answer.will_close:
                connection = None
        except Exception as error:
            connection = None
            failed.append(repr(error))
threads = [threading.Thread(target=client, args=(number, number % 2 == 0)) for number in range(8)]
[thread.start() for thread in threads]
time.sleep(1)
status = subprocess.call(sys.argv[1:])
time.sleep(1)
stop.set()
[thread.join() for thread in threads]
print(f"      {done[0]} requests on new connections, {done[1]} on kept ones, {len(failed)} failed {failed[:3]}")
sys.exit(status or bool(failed) or min(done) == 0)
PYTHON
}

is_another() { local now; now=$(main); [ "$now" != 0 ] && [ "$now" != "$1" ]; }

upgrade() {
    local before
    before=$(main)
    systemctl kill -s SIGUSR2 --kill-whom=main larder && until_true is_another "$before"
}
export -f upgrade main until_true is_another
