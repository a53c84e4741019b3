// Asks for one URL as fast as it is answered: http3_load VERSION CONNECTIONS STREAMS SECONDS URL
//
// VERSION is 2 (Go's net/http) or 3 (quic-go). Prints the number of responses, and of the bytes of their bodies.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"
)

func number(at int) int {
	value, err := strconv.Atoi(os.Args[at])
	if err != nil || value < 1 {
		fmt.Fprintln(os.Stderr, "http3_load VERSION CONNECTIONS STREAMS SECONDS URL")
		os.Exit(2)
	}
	return value
}

func transport(version int) http.RoundTripper {
	anyone := &tls.Config{InsecureSkipVerify: true}
	if version == 3 {
		return &http3.Transport{TLSClientConfig: anyone}
	}
	return &http.Transport{TLSClientConfig: anyone, ForceAttemptHTTP2: true, MaxConnsPerHost: 1}
}

func main() {
	if len(os.Args) != 6 {
		os.Args = []string{"", "", "", "", "", ""}
	}
	version, connections, streams, seconds, url := number(1), number(2), number(3), number(4), os.Args[5]
	var responses, bodies atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for range connections {
		client := &http.Client{Transport: transport(version)}
		for range streams {
			all.Go(func() {
				for time.Now().Before(end) {
					response, err := client.Get(url)
					if err == nil && (response.StatusCode != 200 || response.ProtoMajor != version) {
						err = fmt.Errorf("%s %s", response.Proto, response.Status)
					}
					var bytes int64
					if err == nil {
						bytes, err = io.Copy(io.Discard, response.Body)
						response.Body.Close()
					}
					if err != nil {
						fmt.Fprintln(os.Stderr, err)
						os.Exit(1)
					}
					responses.Add(1)
					bodies.Add(bytes)
				}
			})
		}
	}
	all.Wait()
	fmt.Println(responses.Load(), bodies.Load())
}
