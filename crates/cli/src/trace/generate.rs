//! `larder trace generate`: generates traffic from a law and a seed.

use super::recording::{OutputFormat, Recording};
use crate::failure::Failure;
use crate::numbers::{bytes, count};
use crate::output::line;
use crate::replay::progress::Progress;
use clap::{Args, Subcommand};
use larder_replay::limits::WINDOWS_MAX_REQUESTS;
use larder_replay::{Access, Cdn, FlashCrowd, Joint, Mix, TrafficMix, Video, Web, Windows, gather};
use larder_units::Streams;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Generate a trace: web pages, videos, a CDN's traffic
///
/// The same parameters and seed give the same trace.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: larder trace generate web --objects 1000000 --requests 20000000 -o web.oracleGeneral"
)]
pub struct GenerateArgs {
    #[command(subcommand)]
    generator: Generator,
}

/// Requests between two updates of the progress.
const TICK: u64 = 1 << 16;

/// The arguments of every generator.
#[derive(Args, Debug)]
struct Common {
    /// Requests to generate
    #[arg(long, short = 'n', value_name = "N", value_parser = count, default_value_t = 1_000_000)]
    requests: u64,

    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Add locality: each object's requests fall into a window of the trace, whose length is
    /// log-uniform between this share (0.01) and all of it; with 0.005..0.05, between these two:
    /// objects are born and die; sorts the trace in memory
    #[arg(long, value_name = "SHARE[..SHARE]")]
    windows: Option<Windows>,

    /// Output file, which appears only when it is complete
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    format: OutputFormat,
}

#[derive(Subcommand, Debug)]
enum Generator {
    /// Independent requests by Zipf popularity at Poisson times: the filter paper's web traffic
    Web {
        #[command(flatten)]
        web: WebArgs,
        #[command(flatten)]
        common: Common,
    },
    /// The same with Zipf–Mandelbrot popularity, as in ndnSIM's consumers: rank k has a probability
    /// proportional to 1/(k + shift)^exponent
    ZipfMandelbrot {
        /// Objects of the catalogue
        #[arg(long, value_name = "N", value_parser = count, default_value_t = 2000)]
        objects: u64,
        /// The exponent, ndnSIM's s
        #[arg(long, default_value_t = 0.7)]
        exponent: f64,
        /// The shift, ndnSIM's q, which flattens the most popular ranks
        #[arg(long, default_value_t = 0.7)]
        shift: f64,
        /// Mean requests a second
        #[arg(long, value_name = "RATE", default_value_t = 100.0)]
        requests_per_second: f64,
        /// Bytes of every object
        #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = 1024)]
        object_bytes: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Video views, which request their packets in order at a constant rate: the filter paper's
    /// video traffic
    Video {
        #[command(flatten)]
        video: VideoArgs,
        #[command(flatten)]
        common: Common,
    },
    /// Web and video traffic in a given ratio of bytes: the filter paper's third workload
    Mix {
        /// Bytes of web requests divided by those of video requests
        #[arg(long, default_value_t = 0.7)]
        ratio: f64,
        /// Objects of the web catalogue
        #[arg(long, value_name = "N", value_parser = count, default_value_t = Web::default().objects)]
        web_objects: u64,
        /// Zipf exponent of the web objects' popularity
        #[arg(long, value_name = "EXPONENT", default_value_t = Web::default().exponent)]
        web_exponent: f64,
        /// Bytes of every web object
        #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = Web::default().object_bytes)]
        web_object_bytes: u64,
        #[command(flatten)]
        video: VideoArgs,
        #[command(flatten)]
        common: Common,
    },
    /// A CDN's hot object cache with the published properties of the AdaptSize paper's traces, at
    /// 580 requests a second
    Cdn {
        #[command(flatten)]
        cdn: CdnArgs,
        #[command(flatten)]
        common: Common,
    },
    /// The CDN's traffic, then a flash crowd that requests 200 to 1,000 of its objects: section
    /// 5.3.1 of the AdaptSize paper (15 million requests)
    FlashCrowd {
        #[command(flatten)]
        cdn: CdnArgs,
        /// Requests before the flash crowd
        #[arg(long, value_name = "N", value_parser = count, default_value_t = FlashCrowd::CALM_REQUESTS)]
        calm_requests: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Alternating web, video and download traffic, with sizes 1 : 32 : 512: section 5.3.2 of the
    /// AdaptSize paper (60 million requests)
    TrafficMix {
        #[command(flatten)]
        cdn: CdnArgs,
        /// Requests until the traffic changes
        #[arg(long, value_name = "N", value_parser = count, default_value_t = TrafficMix::REQUESTS_PER_CLASS)]
        requests_per_class: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Objects drawn from a table of popularity and size, in random order, without times
    Joint {
        /// Table file: lines of one popularity, or below it of `size_in_KB probability`
        table: PathBuf,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Debug)]
struct WebArgs {
    /// Objects of the catalogue
    #[arg(long, value_name = "N", value_parser = count, default_value_t = Web::default().objects)]
    objects: u64,
    /// Zipf exponent of their popularity
    #[arg(long, default_value_t = Web::default().exponent)]
    exponent: f64,
    /// Mean requests a second
    #[arg(long, value_name = "RATE", default_value_t = Web::default().requests_per_second)]
    requests_per_second: f64,
    /// Bytes of every object
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = Web::default().object_bytes)]
    object_bytes: u64,
}

#[derive(Args, Debug)]
struct VideoArgs {
    /// Videos of the catalogue
    #[arg(long, value_name = "N", value_parser = count, default_value_t = Video::default().videos)]
    videos: u64,
    /// Packets of every video
    #[arg(long, value_name = "N", value_parser = count, default_value_t = Video::default().packets)]
    packets: u64,
    /// Bytes of every packet
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = Video::default().packet_bytes)]
    packet_bytes: u64,
    /// Zipf exponent of the videos' popularity
    #[arg(long, default_value_t = Video::default().exponent)]
    exponent: f64,
    /// Mean number of views that start per second
    #[arg(long, value_name = "RATE", default_value_t = Video::default().views_per_second)]
    views_per_second: f64,
    /// Packets that a view requests per second
    #[arg(long, value_name = "RATE", default_value_t = Video::default().packets_per_second)]
    packets_per_second: f64,
}

impl VideoArgs {
    fn video(&self) -> Video {
        let VideoArgs {
            videos,
            packets,
            packet_bytes,
            exponent,
            views_per_second,
            packets_per_second,
        } = *self;
        Video {
            videos,
            packets,
            packet_bytes,
            exponent,
            views_per_second,
            packets_per_second,
        }
    }
}

#[derive(Args, Debug)]
struct CdnArgs {
    /// Objects of the (web) catalogue
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    objects: usize,
    /// Zipf exponent of their popularity
    #[arg(long, default_value_t = 0.9)]
    exponent: f64,
}

impl CdnArgs {
    fn cdn(&self, streams: &Streams) -> Result<Cdn, Failure> {
        made(Cdn::new(self.objects, self.exponent, streams))
    }
}

/// Generates the trace, and prints its number of requests.
pub fn run(args: GenerateArgs) -> Result<(), Failure> {
    match args.generator {
        Generator::Web {
            web:
                WebArgs {
                    objects,
                    exponent,
                    requests_per_second,
                    object_bytes,
                },
            common,
        } => {
            let web = Web {
                objects,
                exponent,
                shift: 0.0,
                requests_per_second,
                object_bytes,
            };
            common.record(made(web.requests(&common.streams()))?)
        }
        Generator::ZipfMandelbrot {
            objects,
            exponent,
            shift,
            requests_per_second,
            object_bytes,
            common,
        } => {
            let web = Web {
                objects,
                exponent,
                shift,
                requests_per_second,
                object_bytes,
            };
            common.record(made(web.requests(&common.streams()))?)
        }
        Generator::Video { video, common } => {
            common.record(made(video.video().requests(&common.streams()))?)
        }
        Generator::Mix {
            ratio,
            web_objects,
            web_exponent,
            web_object_bytes,
            video,
            common,
        } => {
            let (objects, exponent, object_bytes) = (web_objects, web_exponent, web_object_bytes);
            let web = Web {
                objects,
                exponent,
                object_bytes,
                ..Web::default()
            };
            common.record(made(
                Mix::of(web, video.video(), ratio).requests(&common.streams()),
            )?)
        }
        Generator::Cdn { cdn, common } => common.record(cdn.cdn(&common.streams())?.requests()),
        Generator::FlashCrowd {
            cdn,
            calm_requests,
            common,
        } => {
            let streams = common.streams();
            let crowd = FlashCrowd::new(cdn.cdn(&streams)?, &streams).after(calm_requests);
            common.record(crowd.requests())
        }
        Generator::TrafficMix {
            cdn,
            requests_per_class,
            common,
        } => {
            let mix = TrafficMix::new(
                cdn.objects,
                cdn.exponent,
                requests_per_class,
                &common.streams(),
            );
            common.record(made(mix)?.requests())
        }
        Generator::Joint { table, common } => record_joint(&table, common),
    }
}

/// Records requests by a table of popularity and size.
fn record_joint(table: &Path, common: Common) -> Result<(), Failure> {
    let name = table.display();
    let file = File::open(table).map_err(|error| {
        Failure::usage(format!(
            "cannot read {name}: {}",
            larder_units::system_message(&error)
        ))
    })?;
    let joint = Joint::read(BufReader::new(file))
        .map_err(|error| Failure::usage(format!("{name}, {error}")))?;
    let most = larder_replay::limits::JOINT_MAX_REQUESTS;
    let requests = usize::try_from(common.requests)
        .ok()
        .filter(|requests| *requests <= most);
    let requests = requests.ok_or_else(|| {
        Failure::usage(format!(
            "--requests: at most {most} by a table, which are shuffled in memory"
        ))
    })?;
    common.record(joint.requests(requests, &common.streams()))
}

fn made<T>(generator: Result<T, larder_replay::ParameterError>) -> Result<T, Failure> {
    generator.map_err(|error| Failure::usage(format!("--{error}")))
}

impl Common {
    fn streams(&self) -> Streams {
        Streams::new(self.seed)
    }

    fn record(&self, requests: impl Iterator<Item = Access>) -> Result<(), Failure> {
        let Some(windows) = self.windows else {
            return self.write(requests);
        };
        let most = usize::try_from(self.requests)
            .ok()
            .filter(|requests| *requests <= WINDOWS_MAX_REQUESTS);
        let most = most.ok_or_else(|| {
            Failure::usage(format!(
                "--requests: at most {WINDOWS_MAX_REQUESTS} with --windows, which are sorted in memory"
            ))
        })?;
        self.write(
            made(gather(
                requests.take(most).collect(),
                windows,
                &self.streams(),
            ))?
            .into_iter(),
        )
    }

    fn write(&self, requests: impl Iterator<Item = Access>) -> Result<(), Failure> {
        let mut recording = Recording::open(&self.output, &self.format)?;
        let (units, name) = (self.requests as f64, self.output.display().to_string());
        let progress = Progress::new(units);
        for (access, number) in requests.zip(1..=self.requests) {
            recording.write(&access)?;
            if number.is_multiple_of(TICK) {
                progress.at("making", &name, number, Some(number as f64 / units), units);
            }
        }
        drop(progress);
        let requests = recording.finish()?;
        // Into a device, such as /dev/stdout, the message would follow the data.
        let is_device = self.output.starts_with("/dev") && !self.output.starts_with("/dev/shm");
        if self.output.is_file() && !is_device {
            line!("{requests} requests in {}", self.output.display());
        }
        Ok(())
    }
}
