// Asks for one URL as fast as it is answered: http3_load VERSION CONNECTIONS STREAMS SECONDS URL
//
// VERSION is 2 (Go's net/http) or 3 (quic-go). Prints the number of responses, and of the bytes of their bodies.
//
// VERSION 3+2 is what browsers do: where the server refuses a connection, or rejects a request, HTTP/2 is used. Prints the numbers
// of responses, of those over HTTP/2, and of failures, with the reasons of both.
package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
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

// rejected tells that the server has not processed the request, and says so: another way is safe (RFC 9114, section 4.1.1).
func rejected(err error) bool {
	var transport *quic.TransportError
	if errors.As(err, &transport) {
		return transport.Remote && transport.ErrorCode == quic.ConnectionRefused
	}
	var code *http3.Error
	if !errors.As(err, &code) {
		return false
	}
	// At a GOAWAY, quic-go itself closes a connection on which it has just begun a request.
	ownEnd := !code.Remote && code.ErrorCode == http3.ErrCodeNoError
	return ownEnd || code.Remote && code.ErrorCode == http3.ErrCodeRequestRejected
}

// ask sends one request; it returns the bytes of the response's body, and whether the response had begun.
func ask(client *http.Client, target string, version int) (int64, bool, error) {
	response, err := client.Get(target)
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 || response.ProtoMajor != version {
		return 0, true, fmt.Errorf("%s %s", response.Proto, response.Status)
	}
	bytes, err := io.Copy(io.Discard, response.Body)
	return bytes, true, err
}

// both is the load of a client that has HTTP/3 and HTTP/2.
func both(connections, streams, seconds int, target string) {
	var responses, fallbacks, failures atomic.Int64
	var reasons sync.Map
	var all sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for range connections {
		client, other := &http.Client{Transport: transport(3)}, &http.Client{Transport: transport(2)}
		for range streams {
			all.Go(func() {
				for time.Now().Before(end) {
					_, begun, err := ask(client, target, 3)
					if err != nil && !begun && rejected(err) {
						reasons.Store("over HTTP/2: "+reason(err), true)
						fallbacks.Add(1)
						_, _, err = ask(other, target, 2)
					}
					if err != nil {
						reasons.Store("failed: "+reason(err), true)
						failures.Add(1)
					} else {
						responses.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	fmt.Printf("%d requests, %d over HTTP/2, %d failed\n", responses.Load(), fallbacks.Load(), failures.Load())
	reasons.Range(func(reason, _ any) bool {
		fmt.Println(reason)
		return true
	})
}

// reason is the error without the URL and addresses.
func reason(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
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
	connections, streams, seconds, target := number(2), number(3), number(4), os.Args[5]
	if os.Args[1] == "3+2" {
		both(connections, streams, seconds, target)
		return
	}
	version := number(1)
	var responses, bodies atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for range connections {
		client := &http.Client{Transport: transport(version)}
		for range streams {
			all.Go(func() {
				for time.Now().Before(end) {
					bytes, _, err := ask(client, target, version)
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
