// Fetches a miss, a hit, a large body, a POST, a HEAD and a 404 by HTTP/3 with quic-go: quic_go PORT
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/quic-go/quic-go/http3"
)

func ask(client *http.Client, method, url string, body []byte) (*http.Response, []byte) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequest(method, url, reader)
	check(err)
	response, err := client.Do(request)
	check(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(err)
	expect(response.Proto == "HTTP/3.0", response.Proto)
	return response, answer
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func expect(is bool, what ...any) {
	if !is {
		check(fmt.Errorf("unexpected: %v", what))
	}
}

func main() {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.Close()
	client := &http.Client{Transport: transport}
	base := "https://localhost:" + os.Args[1]
	large := bytes.Repeat(func() []byte {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		return all
	}(), 12000)
	response, page := ask(client, "GET", base+"/page/quic-go", nil)
	expect(response.StatusCode == 200 && strings.Contains(response.Header.Get("Cache-Status"), "fwd=uri-miss"), response.Header)
	response, again := ask(client, "GET", base+"/page/quic-go", nil)
	expect(bytes.Equal(page, again) && strings.Contains(response.Header.Get("Cache-Status"), "hit"), response.Header)
	for range 2 {
		_, body := ask(client, "GET", base+"/large/quic-go", nil)
		expect(bytes.Equal(body, large), len(body))
	}
	_, body := ask(client, "POST", base+"/form", bytes.Repeat([]byte("hello"), 50000))
	expect(string(body) == "250000 hello", string(body))
	response, body = ask(client, "HEAD", base+"/page/quic-go", nil)
	expect(response.StatusCode == 200 && len(body) == 0 && response.ContentLength == int64(len(page)), response)
	response, _ = ask(client, "GET", base+"/nothing", nil)
	expect(response.StatusCode == 404, response.StatusCode)
}
