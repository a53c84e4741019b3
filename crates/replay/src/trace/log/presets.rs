//! The formats of logs that are known by name, each as a description in nginx's notation.
//!
//! `$head`, `$mid` and `$tail` are fields that differ from site to site; `learned.rs` finds the
//! host and the cache's status in them. Another name without a meaning (`names.rs`) is ignored.
//! Fields after the last one of a description are ignored too.
//!
//! Sources: the documentation of each server. A form that several servers share has one entry.

/// A format that is known by name.
pub(super) struct Preset {
    pub name: &'static str,
    pub summary: &'static str,
    pub form: Form,
}

/// The form of a line.
pub(super) enum Form {
    /// A description in nginx's notation.
    Text(&'static str),
    Json,
    Header,
}

const fn text(name: &'static str, summary: &'static str, text: &'static str) -> Preset {
    Preset {
        name,
        summary,
        form: Form::Text(text),
    }
}

/// The formats. If lines have several of them, the first is theirs.
pub(super) const PRESETS: &[Preset] = &[
    text(
        "haproxy",
        "HAProxy's httplog",
        "$client [$time_local] $frontend $backend $timers $status $bytes_sent $cookie $cookie2 $termination $connections $queues $mid\"$request\"",
    ),
    text(
        "alb",
        "Amazon's Application Load Balancer",
        "$type $time_iso8601 $elb $client $target_ip $time1 $time2 $time3 $status $target_status $received $bytes_sent \"$request\" \"$agent\" $cipher $tls $group \"$trace\" \"$sni\"",
    ),
    text(
        "clb",
        "Amazon's Classic Load Balancer",
        "$time_iso8601 $elb $client $backend $time1 $time2 $time3 $status $backend_status $received $bytes_sent \"$request\"",
    ),
    text(
        "s3",
        "Amazon S3 server access log",
        "$owner $server_name [$time_local] $ip $requester $id $operation $key \"$request\" $status $error $bytes_sent $object_size $total $turnaround \"$referer\" \"$agent\"",
    ),
    text(
        "nginx-proxy-manager",
        "Nginx Proxy Manager",
        "[$time_local] $upstream_cache_status $origin_status $status - $request_method $scheme $host \"$request_uri\" [Client $ip] [Length $body_bytes_sent]",
    ),
    text(
        "nginx-proxy-manager-standard",
        "Nginx Proxy Manager without a cache's status",
        "[$time_local] $status - $request_method $scheme $host \"$request_uri\" [Client $ip] [Length $body_bytes_sent]",
    ),
    text(
        "envoy",
        "Envoy",
        "[$time_iso8601] \"$request\" $status $flags $received $body_bytes_sent $duration $upstream_time \"$forwarded\" \"$agent\" \"$id\" \"$host\" \"$upstream_host\"",
    ),
    text(
        "istio",
        "Istio's Envoy",
        "[$time_iso8601] \"$request\" $status $flags $details $termination \"$failure\" $received $body_bytes_sent $duration $upstream_time \"$forwarded\" \"$agent\" \"$id\" \"$host\" \"$upstream_host\"",
    ),
    text(
        "ingress-nginx",
        "the ingress controller of Kubernetes, based on nginx",
        "$ip - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$referer\" \"$agent\" $request_length $request_time [$upstream_name] [$alternative] $tail",
    ),
    text(
        "squid",
        "Squid, and Apache Traffic Server's squid format",
        "$msec $elapsed $client $cache_status/$status $bytes_sent $request_method $request_uri",
    ),
    text(
        "combined",
        "the common and the combined format, with or without virtual host and further fields: Apache, nginx, Varnish, Traefik, HAProxy's CLF, Fastly, Larder",
        "$head [$time_local]$mid\"$request\" $status $body_bytes_sent$tail",
    ),
    Preset {
        name: "json",
        summary: "JSON objects, by the names of their members: nginx, Caddy, Traefik, Envoy, Elastic (ECS), Google Cloud, Azure, Cloudflare Logpush, Akamai DataStream, Fastly, Larder",
        form: Form::Json,
    },
    Preset {
        name: "w3c",
        summary: "columns that a line `#Fields:` or the first line names: IIS, CloudFront, and tables of URL, status and bytes",
        form: Form::Header,
    },
];
