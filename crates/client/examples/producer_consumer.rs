//! An NDN producer and an NDN consumer on one forwarder: the producer answers Interests under
//! `/example/hello` with signed Data, and the consumer verifies them.
//!
//! ```sh
//! larder run &                                                # or NFD
//! cargo run -p larder-client --example producer_consumer
//! ```

#![allow(clippy::print_stdout, reason = "an example prints its result")]
#![allow(clippy::disallowed_methods, reason = "a program owns its threads")]

use larder_client::{Client, ClientError, Received};
use larder_packet::{DataBuilder, DigestSigner, DigestVerifier, InterestBuilder, Name};
use std::error::Error;
use std::time::Duration;

/// How long the consumer waits for an answer.
const LIFETIME: Duration = Duration::from_secs(2);

/// Answers each Interest under the prefix, until `count` are answered.
fn produce(mut client: Client, count: usize) -> Result<(), ClientError> {
    let mut answered = 0;
    while answered < count {
        client.receive(None, |_, received, output| {
            // The token says which pending Interest the Data answers.
            let Received::Interest {
                interest, token, ..
            } = received
            else {
                return;
            };
            let content = format!("hello, {}", interest.name);
            let data = DataBuilder::new(interest.name)
                .freshness(LIFETIME)
                .content(content.as_bytes());
            let sent = output.send(token, |out| data.build_into(&DigestSigner, out));
            answered += usize::from(sent.is_ok());
        })?;
    }
    client.flush(LIFETIME)
}

/// Requests one name. Returns the content of the Data; `None` if there is no answer in time.
fn fetch(client: &mut Client, name: &Name, nonce: u32) -> Result<Option<String>, ClientError> {
    let interest = InterestBuilder::new(name)
        .nonce(nonce)
        .lifetime(LIFETIME)
        .build();
    client
        .output()
        .send(None, |out| out.extend_from_slice(&interest));
    let deadline = client.now() + LIFETIME;
    let mut content = None;
    while content.is_none() && client.now() < deadline {
        client.receive(Some(deadline), |_, received, _| {
            if let Received::Data { data, .. } = received
                && data.name == name.as_name()
                && data.verify(&DigestVerifier).is_ok()
            {
                content = Some(String::from_utf8_lossy(data.content).into_owned());
            }
        })?;
    }
    Ok(content)
}

fn main() -> Result<(), Box<dyn Error>> {
    const COUNT: usize = 3;
    let prefix: Name = "/example/hello".parse()?;
    let mut producer = Client::connect()?;
    producer.register(&prefix)?;
    let producer = std::thread::spawn(move || produce(producer, COUNT));
    let mut consumer = Client::connect()?;
    let mut nonces = consumer.random_stream("nonces");
    for number in 0..COUNT {
        let mut name = prefix.clone();
        name.push_generic(number.to_string().as_bytes());
        match fetch(&mut consumer, &name, nonces.bits() as u32)? {
            Some(content) => println!("{name}: {content}"),
            None => println!("{name}: no answer within {LIFETIME:?}"),
        }
    }
    producer.join().map_err(|_| "the producer panicked")??;
    Ok(())
}
